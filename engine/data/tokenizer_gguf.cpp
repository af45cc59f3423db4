// A GGUF vocabulary says which published tokenizer its text rules are (`pre`); the rules themselves are written out here
// as the same tokenizer.json would have them, so that one builder serves both forms.
#include <array>
#include <utility>

#include "engine/data/shown.h"
#include "engine/data/tokenizer_parts.h"
#include "engine/data/utf8.h"

namespace parbuckle {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int32_t control_token = 3;
constexpr std::int32_t user_defined_token = 4;

constexpr std::string_view llama3_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen2_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Json split_then_bytes(std::string_view pattern) {
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level(false)})}};
}

struct TextRules {
  Json normalizer = nullptr;
  Json pre_tokenizer;
  bool ignore_merges = false;
  bool adds_bos = false;  // where the file does not say
};

Result<TextRules> rules_of(const std::string& pre) {
  if (pre == "gpt-2") {
    return TextRules{.pre_tokenizer = byte_level(true)};
  }
  if (pre == "smollm") {
    const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
    return TextRules{.pre_tokenizer = {{"type", "Sequence"},
                                       {"pretokenizers", Json::array({digits, byte_level(true)})}}};
  }
  if (pre == "llama-bpe") {
    return TextRules{
        .pre_tokenizer = split_then_bytes(llama3_words), .ignore_merges = true, .adds_bos = true};
  }
  if (pre == "qwen2") {
    return TextRules{.normalizer = {{"type", "NFC"}},
                     .pre_tokenizer = split_then_bytes(qwen2_words)};
  }
  return unsupported("tokenizer.ggml.pre: " + shown(pre) +
                     " is not supported; gpt-2, smollm, llama-bpe and qwen2 are");
}

Status check_id(const char* key, std::int32_t id, const GgufVocabulary& given) {
  const auto count = static_cast<std::int64_t>(given.tokens.size());
  if (id < -1 || id >= count) {
    return invalid("tokenizer.ggml." + std::string(key) + ": " + std::to_string(id) +
                   " is not the id of one of the " + std::to_string(count) + " tokens");
  }
  return {};
}

Status check(const GgufVocabulary& given) {
  if (given.model != "gpt2") {
    return unsupported("tokenizer.ggml.model: " + shown(given.model) +
                       " is not supported; gpt2 (byte-level BPE) is");
  }
  if (!given.token_types.empty() && given.token_types.size() != given.tokens.size()) {
    return invalid("tokenizer.ggml.token_type: " + std::to_string(given.token_types.size()) +
                   " types for " + std::to_string(given.tokens.size()) + " tokens");
  }
  for (std::size_t id = 0; id < given.tokens.size(); ++id) {
    if (find_invalid_utf8(given.tokens[id]) != std::string::npos) {
      return invalid("tokenizer.ggml.tokens[" + std::to_string(id) +
                     "]: " + shown(given.tokens[id]) + " is not UTF-8");
    }
  }
  PARBUCKLE_TRY(check_id("bos_token_id", given.bos_id, given));
  PARBUCKLE_TRY(check_id("eos_token_id", given.eos_id, given));
  PARBUCKLE_TRY(check_id("unknown_token_id", given.unk_id, given));
  return check_id("padding_token_id", given.pad_id, given);
}

Json added_tokens(const GgufVocabulary& given) {
  Json added = Json::array();
  for (std::size_t id = 0; id < given.token_types.size(); ++id) {
    const std::int32_t type = given.token_types[id];
    if (type == control_token || type == user_defined_token) {
      added.push_back({{"id", id},
                       {"content", given.tokens[id]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", type == control_token}});
    }
  }
  return added;
}

Json bos_template(const GgufVocabulary& given) {
  const std::string& bos = given.tokens[static_cast<std::size_t>(given.bos_id)];
  const auto special = [&bos](int type) {
    return Json{{"SpecialToken", {{"id", bos}, {"type_id", type}}}};
  };
  const auto text = [](const char* name, int type) {
    return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  const Json known = {{"id", bos},
                      {"ids", Json::array({static_cast<std::uint32_t>(given.bos_id)})},
                      {"tokens", Json::array({bos})}};
  return {{"type", "TemplateProcessing"},
          {"single", Json::array({special(0), text("A", 0)})},
          {"pair", Json::array({special(0), text("A", 0), special(1), text("B", 1)})},
          {"special_tokens", {{bos, known}}}};
}

Json rest_of_file(const GgufVocabulary& given, const TextRules& rules) {
  const bool adds_bos = given.add_bos.value_or(rules.adds_bos) && given.bos_id >= 0;
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens(given)},
          {"normalizer", rules.normalizer},
          {"pre_tokenizer", rules.pre_tokenizer},
          {"post_processor", adds_bos ? bos_template(given) : Json(nullptr)},
          {"decoder", byte_level(true)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", rules.ignore_merges}}}};
}

Status fill_lists(const GgufVocabulary& given, TokenizerFile& file) {
  file.has_vocabulary = true;
  file.has_merges = true;
  for (std::size_t id = 0; id < given.tokens.size(); ++id) {
    if (!file.vocabulary.add(given.tokens[id], static_cast<std::int32_t>(id))) {
      return invalid("tokenizer.ggml.tokens[" + std::to_string(id) +
                     "]: " + shown(given.tokens[id]) + " is there twice");
    }
  }
  for (std::size_t i = 0; i < given.merges.size(); ++i) {
    const std::string_view merge = given.merges[i];
    const std::size_t space = merge.find(' ');
    if (space == 0 || space >= merge.size() - 1 || merge.find(' ', space + 1) < merge.size()) {
      return invalid("tokenizer.ggml.merges[" + std::to_string(i) + "]: " + shown(merge) +
                     " is not two tokens with one space between them");
    }
    file.merges.add(merge.substr(0, space), merge.substr(space + 1));
  }
  return {};
}

}  // namespace

Result<Tokenizer> Tokenizer::from_gguf_vocabulary(GgufVocabulary vocabulary) {
  PARBUCKLE_TRY(check(vocabulary));
  PARBUCKLE_ASSIGN(const TextRules rules, rules_of(vocabulary.pre));
  TokenizerFile file;
  file.rest = rest_of_file(vocabulary, rules);
  PARBUCKLE_TRY(fill_lists(vocabulary, file));
  PARBUCKLE_ASSIGN(Parts parts, build_tokenizer(std::move(file), "tokenizer.ggml"));
  parts.special = {.bos = vocabulary.bos_id,
                   .eos = vocabulary.eos_id,
                   .unk = vocabulary.unk_id,
                   .pad = vocabulary.pad_id};
  parts.chat_template = std::move(vocabulary.chat_template);
  return Tokenizer(std::make_shared<const Parts>(std::move(parts)));
}

}  // namespace parbuckle
