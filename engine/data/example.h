// What a model is trained on: token ids and, for each, whether its prediction counts.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "parbuckle/status.h"

#include "engine/data/tokenizer.h"

namespace parbuckle {

/// The label of a token that is no target.
inline constexpr std::int32_t no_label = -100;

struct Example {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> labels;  // not shifted: the id itself, or no_label
  std::int64_t line = 0;             // of the data file, from 1
  std::int64_t left_out = 0;  // further tokens of the record, beyond ExampleRule::most_tokens
  friend bool operator==(const Example&, const Example&) = default;
};

/// Labels that count: the first token of an example is never predicted.
std::int64_t count_targets(const Example& example);

struct ExampleRule {
  bool add_special_tokens = true;  // what the tokenizer's template puts around a text
  bool append_eos = true;          // once, where the text does not end with it already
  std::int32_t eos_id = -1;        // -1: the tokenizer's
  bool train_on_prompt = false;
  /// Of each part of a record no more tokens than this are held in memory; the others are counted.
  std::int64_t most_tokens = std::numeric_limits<std::int64_t>::max();
  /// Between prompt and completion, part of the prompt. Absent: a line feed where the two fields were named by the user
  /// (a question and an answer, say), nothing for `prompt` and `completion`.
  std::optional<std::string> prompt_suffix;
};

/// Text to examples. Prompt and completion are encoded *separately*: prompt + suffix, then the completion, then the end
/// token. So the border is always between two tokens, no target is lost in a merge over it, and the ids of a completion do
/// not depend on its prompt.
class ExampleMaker {
 public:
  /// `tokenizer` must outlive it.
  ExampleMaker(const Tokenizer& tokenizer, ExampleRule rule);

  Result<Example> from_text(std::string_view text);
  Result<Example> from_pair(std::string_view prompt, std::string_view completion);

  [[nodiscard]] std::int64_t lost_bytes() const { return report_.lost_bytes; }
  /// Records whose text gave no token.
  [[nodiscard]] std::int64_t without_tokens() const { return without_tokens_; }

 private:
  Result<std::vector<std::int32_t>> encode(std::string_view text, Example& example);
  void finish(std::vector<std::int32_t>& ids) const;

  const Tokenizer* tokenizer_;
  ExampleRule rule_;
  EncodeReport report_;
  std::int64_t without_tokens_ = 0;
};

/// One line a token: position, id, text, and the label it has.
std::string describe_example(const Tokenizer& tokenizer, const Example& example);

}  // namespace parbuckle
