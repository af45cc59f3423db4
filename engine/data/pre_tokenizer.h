// Cuts a text into the words that are encoded one by one: a chain of splitting rules, each working on the pieces of the
// rule before it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "parbuckle/status.h"

#include "engine/data/pattern.h"

namespace parbuckle {

/// What becomes of the matches of a splitting pattern (the reference library's words).
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct SplitRule {
  Pattern pattern;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  // what does not match is the delimiter
};

/// One stage: an optional space in front of each piece, then an optional split.
struct PreTokenizerStage {
  bool add_prefix_space = false;
  std::vector<SplitRule> split;  // none or one
};

class PreTokenizer {
 public:
  void add(PreTokenizerStage stage) { stages_.push_back(std::move(stage)); }

  /// The words of one text after the other. One thread each; holds no more than one piece a stage.
  class Cursor {
   public:
    explicit Cursor(const PreTokenizer& rules);
    ~Cursor();
    Cursor(const Cursor&) = delete;
    Cursor& operator=(const Cursor&) = delete;

    /// REQUIRES: `text` is valid UTF-8 and outlives the walk.
    void start(std::string_view text);
    /// False at the end, or when a pattern gave up: see status(). Words are never empty.
    bool next(std::string_view& word);
    [[nodiscard]] Status status() const;

   private:
    class Stage;
    std::vector<std::unique_ptr<Stage>> stages_;
    std::string_view whole_;
    std::size_t level_ = 0;
  };

 private:
  std::vector<PreTokenizerStage> stages_;
};

}  // namespace parbuckle
