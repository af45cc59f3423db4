#include "engine/data/tokenizer_components.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/data/shown.h"

namespace parbuckle {
namespace {

constexpr std::string_view gpt2_words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// A component and the components its Sequences hold, in order, Sequences taken apart.
Result<std::vector<JsonPart>> flattened(const JsonPart& top,
                                        std::string_view key,
                                        std::string_view list) {
  std::vector<JsonPart> waiting;
  std::vector<JsonPart> flat;
  if (top.has(key)) {
    PARBUCKLE_ASSIGN(JsonPart first, top.object(key));
    waiting.push_back(std::move(first));
  }
  while (!waiting.empty()) {
    const JsonPart part = std::move(waiting.back());
    waiting.pop_back();
    PARBUCKLE_TRY(part.is_object());
    PARBUCKLE_ASSIGN(const std::string type, part.text("type"));
    if (type != "Sequence") {
      flat.push_back(part);
      continue;
    }
    PARBUCKLE_TRY(part.only({"type", list}));
    PARBUCKLE_ASSIGN(const std::vector<JsonPart> inner, part.array(list));
    waiting.insert(waiting.end(), inner.rbegin(), inner.rend());
  }
  return flat;
}

Status refuse_type(const JsonPart& part, std::string_view known) {
  PARBUCKLE_ASSIGN(const std::string type, part.text("type"));
  return unsupported(part.path() + ".type: " + shown(type) + " is not supported; " +
                     std::string(known) + " are");
}

Result<PreTokenizerStage> read_byte_level(const JsonPart& part) {
  PARBUCKLE_TRY(part.only({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  PreTokenizerStage stage;
  PARBUCKLE_ASSIGN(stage.add_prefix_space, part.flag_or("add_prefix_space", true));
  PARBUCKLE_ASSIGN(const bool use_regex, part.flag_or("use_regex", true));
  if (use_regex) {
    PARBUCKLE_ASSIGN(Pattern pattern, Pattern::compile(gpt2_words, part.path()));
    stage.split.push_back({std::move(pattern), SplitBehavior::isolated, false});
  }
  return stage;
}

Result<SplitBehavior> read_behavior(const JsonPart& part) {
  PARBUCKLE_ASSIGN(const std::string word, part.text("behavior"));
  if (word == "Removed") {
    return SplitBehavior::removed;
  }
  if (word == "Isolated") {
    return SplitBehavior::isolated;
  }
  if (word == "MergedWithPrevious") {
    return SplitBehavior::merged_with_previous;
  }
  if (word == "MergedWithNext") {
    return SplitBehavior::merged_with_next;
  }
  if (word == "Contiguous") {
    return SplitBehavior::contiguous;
  }
  return unsupported(part.path() + ".behavior: " + shown(word) +
                     " is not one of Removed, Isolated, MergedWithPrevious, MergedWithNext, "
                     "Contiguous");
}

Result<PreTokenizerStage> read_split(const JsonPart& part) {
  PARBUCKLE_TRY(part.only({"type", "pattern", "behavior", "invert"}));
  PARBUCKLE_ASSIGN(const JsonPart given, part.object("pattern"));
  PARBUCKLE_TRY(given.only({"Regex", "String"}));
  const bool regex = given.has("Regex");
  PARBUCKLE_ASSIGN(const std::string text, given.text(regex ? "Regex" : "String"));
  PARBUCKLE_ASSIGN(
      Pattern pattern,
      regex ? Pattern::compile(text, given.path()) : Pattern::literal(text, given.path()));
  PARBUCKLE_ASSIGN(const SplitBehavior behavior, read_behavior(part));
  PARBUCKLE_ASSIGN(const bool invert, part.flag_or("invert", false));
  PreTokenizerStage stage;
  stage.split.push_back({std::move(pattern), behavior, invert});
  return stage;
}

Result<PreTokenizerStage> read_digits(const JsonPart& part) {
  PARBUCKLE_TRY(part.only({"type", "individual_digits"}));
  PARBUCKLE_ASSIGN(const bool single, part.flag_or("individual_digits", false));
  PARBUCKLE_ASSIGN(Pattern pattern, Pattern::compile(R"(\p{N})", part.path()));
  PreTokenizerStage stage;
  stage.split.push_back(
      {std::move(pattern), single ? SplitBehavior::isolated : SplitBehavior::contiguous, false});
  return stage;
}

bool has_token(const Tokenizer::Parts& parts, std::int32_t id) {
  return parts.vocabulary.has_id(id) || parts.added.contains(id);
}

/// The ids of one special token of a template.
Result<std::vector<std::int32_t>> template_ids(const JsonPart& processor,
                                               const std::string& name,
                                               const Tokenizer::Parts& parts) {
  PARBUCKLE_ASSIGN(const JsonPart known, processor.object("special_tokens"));
  if (!known.has(name)) {
    return invalid(processor.path() + ": the template names " + shown(name) +
                   ", which special_tokens does not have");
  }
  PARBUCKLE_ASSIGN(const JsonPart token, known.object(name));
  PARBUCKLE_ASSIGN(const std::vector<JsonPart> listed, token.array("ids"));
  std::vector<std::int32_t> ids;
  for (const JsonPart& id : listed) {
    const bool whole = id.json().is_number_unsigned() && id.json().get<std::uint64_t>() < 1U << 24U;
    if (!whole || !has_token(parts, id.json().get<std::int32_t>())) {
      return invalid(id.path() + ": " + id.json().dump() + " is not the id of a token");
    }
    ids.push_back(id.json().get<std::int32_t>());
  }
  return ids;
}

Status read_template(const JsonPart& part, Tokenizer::Parts& parts) {
  PARBUCKLE_TRY(part.only({"type", "single", "pair", "special_tokens"}));
  PARBUCKLE_ASSIGN(const std::vector<JsonPart> pieces, part.array("single"));
  std::vector<std::int32_t> before;
  std::vector<std::int32_t> after;
  int texts = 0;
  for (const JsonPart& piece : pieces) {
    PARBUCKLE_TRY(piece.only({"SpecialToken", "Sequence"}));
    if (piece.has("Sequence")) {
      ++texts;
      continue;
    }
    PARBUCKLE_ASSIGN(const JsonPart token, piece.object("SpecialToken"));
    PARBUCKLE_ASSIGN(const std::string name, token.text("id"));
    PARBUCKLE_ASSIGN(const std::vector<std::int32_t> ids, template_ids(part, name, parts));
    std::vector<std::int32_t>& side = texts == 0 ? before : after;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (texts != 1) {
    return unsupported(part.path() + ".single: the text stands " + std::to_string(texts) +
                       " times in the template; exactly once is supported");
  }
  parts.prefix.insert(parts.prefix.begin(), before.begin(), before.end());
  parts.suffix.insert(parts.suffix.end(), after.begin(), after.end());
  return {};
}

}  // namespace

Status read_normalizer(const JsonPart& top, Tokenizer::Parts& parts) {
  PARBUCKLE_ASSIGN(const std::vector<JsonPart> steps, flattened(top, "normalizer", "normalizers"));
  for (const JsonPart& step : steps) {
    PARBUCKLE_ASSIGN(const std::string type, step.text("type"));
    if (type != "NFC" && type != "Lowercase") {
      return refuse_type(step, "NFC, Lowercase and Sequence");
    }
    PARBUCKLE_TRY(step.only({"type"}));
    parts.normalizer.add(type == "NFC" ? NormalizerStep::nfc : NormalizerStep::lowercase);
  }
  return {};
}

Status read_pre_tokenizer(const JsonPart& top, Tokenizer::Parts& parts) {
  PARBUCKLE_ASSIGN(const std::vector<JsonPart> steps,
                   flattened(top, "pre_tokenizer", "pretokenizers"));
  for (const JsonPart& step : steps) {
    PARBUCKLE_ASSIGN(const std::string type, step.text("type"));
    if (parts.byte_level) {
      return unsupported(step.path() + ": nothing is supported after ByteLevel, found " +
                         shown(type));
    }
    if (type == "ByteLevel") {
      PARBUCKLE_ASSIGN(PreTokenizerStage stage, read_byte_level(step));
      parts.pre_tokenizer.add(std::move(stage));
      parts.byte_level = true;
    } else if (type == "Split") {
      PARBUCKLE_ASSIGN(PreTokenizerStage stage, read_split(step));
      parts.pre_tokenizer.add(std::move(stage));
    } else if (type == "Digits") {
      PARBUCKLE_ASSIGN(PreTokenizerStage stage, read_digits(step));
      parts.pre_tokenizer.add(std::move(stage));
    } else {
      return refuse_type(step, "ByteLevel, Split, Digits and Sequence");
    }
  }
  return {};
}

Status read_decoder(const JsonPart& top, Tokenizer::Parts& parts) {
  PARBUCKLE_ASSIGN(const std::vector<JsonPart> steps, flattened(top, "decoder", "decoders"));
  for (const JsonPart& step : steps) {
    PARBUCKLE_ASSIGN(const std::string type, step.text("type"));
    if (type != "ByteLevel") {
      return refuse_type(step, "ByteLevel and Sequence");
    }
    if (parts.decode_bytes) {
      return unsupported(step.path() + ": a second ByteLevel decoder is not supported");
    }
    PARBUCKLE_TRY(step.only({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
    parts.decode_bytes = true;
  }
  return {};
}

Status read_post_processor(const JsonPart& top, Tokenizer::Parts& parts) {
  PARBUCKLE_ASSIGN(const std::vector<JsonPart> steps,
                   flattened(top, "post_processor", "processors"));
  for (const JsonPart& step : steps) {
    PARBUCKLE_ASSIGN(const std::string type, step.text("type"));
    if (type == "TemplateProcessing") {
      PARBUCKLE_TRY(read_template(step, parts));
    } else if (type == "ByteLevel") {  // moves offsets only
      PARBUCKLE_TRY(step.only({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
    } else {
      return refuse_type(step, "ByteLevel, TemplateProcessing and Sequence");
    }
  }
  return {};
}

}  // namespace parbuckle
