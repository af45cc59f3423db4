// Rewrites a text before it is cut into words: Unicode composition and lower case, in the order the file gives.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "parbuckle/status.h"

namespace parbuckle {

enum class NormalizerStep { nfc, lowercase };

class Normalizer {
 public:
  void add(NormalizerStep step) { steps_.push_back(step); }
  [[nodiscard]] bool changes_nothing() const { return steps_.empty(); }

  /// `text` itself where no step changes it, else a view of `buffer`. REQUIRES: valid UTF-8.
  Result<std::string_view> apply(std::string_view text, std::string& buffer) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace parbuckle
