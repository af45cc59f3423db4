// A tokenizer.json in parts: the two long lists in compact form, all the rest as a small JSON value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "parbuckle/status.h"

#include "engine/data/vocabulary.h"

namespace parbuckle {

/// The merges as text: left and right halves in one buffer.
class MergeTexts {
 public:
  void add(std::string_view left, std::string_view right);
  [[nodiscard]] std::size_t size() const { return ends_.size() / 2; }
  [[nodiscard]] std::string_view left(std::size_t merge) const { return part(2 * merge); }
  [[nodiscard]] std::string_view right(std::size_t merge) const { return part(2 * merge + 1); }

 private:
  [[nodiscard]] std::string_view part(std::size_t index) const;
  std::string texts_;
  std::vector<std::uint32_t> ends_;
};

struct TokenizerFile {
  nlohmann::ordered_json rest;  // model.vocab and model.merges are absent here
  Vocabulary vocabulary;
  MergeTexts merges;
  bool has_vocabulary = false;
  bool has_merges = false;
};

/// Reads the text of a tokenizer.json. Refuses what is not JSON, nesting beyond 64, keys given twice, ids that are not
/// whole numbers from 0 to 2^31 - 2 or are given twice, merges that are not two tokens or mix both forms.
/// `name` is the file's name in messages.
Result<TokenizerFile> read_tokenizer_file(std::string_view text, const std::string& name);

}  // namespace parbuckle
