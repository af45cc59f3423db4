#include "engine/data/example.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "engine/data/shown.h"

namespace parbuckle {

std::int64_t count_targets(const Example& example) {
  std::int64_t targets = 0;
  for (std::size_t i = 1; i < example.labels.size(); ++i) {
    targets += example.labels[i] == no_label ? 0 : 1;
  }
  return targets;
}

ExampleMaker::ExampleMaker(const Tokenizer& tokenizer, ExampleRule rule)
    : tokenizer_(&tokenizer), rule_(std::move(rule)) {
  if (rule_.eos_id < 0) {
    rule_.eos_id = tokenizer.special_ids().eos;
  }
}

void ExampleMaker::finish(std::vector<std::int32_t>& ids) const {
  if (rule_.add_special_tokens) {
    ids.insert(ids.begin(), tokenizer_->prefix().begin(), tokenizer_->prefix().end());
    ids.insert(ids.end(), tokenizer_->suffix().begin(), tokenizer_->suffix().end());
  }
  const bool there = !ids.empty() && ids.back() == rule_.eos_id;
  if (rule_.append_eos && rule_.eos_id >= 0 && !there) {
    ids.push_back(rule_.eos_id);
  }
}

Result<std::vector<std::int32_t>> ExampleMaker::encode(std::string_view text, Example& example) {
  const std::int64_t before = report_.left_out;
  PARBUCKLE_ASSIGN(
      std::vector<std::int32_t> ids,
      tokenizer_->encode_head(text, static_cast<std::size_t>(rule_.most_tokens), report_));
  example.left_out += report_.left_out - before;
  return ids;
}

Result<Example> ExampleMaker::from_text(std::string_view text) {
  Example example;
  PARBUCKLE_ASSIGN(example.ids, encode(text, example));
  without_tokens_ += example.ids.empty() ? 1 : 0;
  finish(example.ids);
  example.labels = example.ids;
  return example;
}

Result<Example> ExampleMaker::from_pair(std::string_view prompt, std::string_view completion) {
  Example example;
  PARBUCKLE_ASSIGN(example.ids,
                   encode(std::string(prompt) + rule_.prompt_suffix.value_or(""), example));
  PARBUCKLE_ASSIGN(const std::vector<std::int32_t> answer, encode(completion, example));
  std::size_t masked = example.ids.size();
  example.ids.insert(example.ids.end(), answer.begin(), answer.end());
  without_tokens_ += example.ids.empty() ? 1 : 0;
  finish(example.ids);
  masked += rule_.add_special_tokens ? tokenizer_->prefix().size() : 0;
  example.labels = example.ids;
  if (!rule_.train_on_prompt) {
    std::fill_n(example.labels.begin(), masked, no_label);
  }
  return example;
}

std::string describe_example(const Tokenizer& tokenizer, const Example& example) {
  std::string out = "position      id   label  token\n";
  for (std::size_t i = 0; i < example.ids.size(); ++i) {
    std::array<char, 64> numbers{};
    const bool target = i > 0 && example.labels[i] != no_label;
    std::snprintf(numbers.data(),
                  numbers.size(),
                  "%8zu %7d %7s  ",
                  i,
                  example.ids[i],
                  target ? std::to_string(example.labels[i]).c_str() : "-");
    out += numbers.data();
    const auto text = tokenizer.token(example.ids[i]);
    out += text ? shown(tokenizer.decode(std::vector<std::int32_t>{example.ids[i]}, false))
                : "(no such token)";
    out += "\n";
  }
  return out;
}

}  // namespace parbuckle
