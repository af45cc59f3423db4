#include <initializer_list>
#include <string_view>
#include <utility>

#include "engine/data/shown.h"
#include "engine/data/tokenizer_components.h"
#include "engine/data/tokenizer_parts.h"

namespace parbuckle {
namespace {

Status check_top(const JsonPart& top) {
  return top.only({"version",
                   "truncation",
                   "padding",
                   "added_tokens",
                   "normalizer",
                   "pre_tokenizer",
                   "post_processor",
                   "decoder",
                   "model"});
}

Status refuse_if_set(const JsonPart& model, std::string_view key) {
  PARBUCKLE_ASSIGN(const std::string text, model.text_or(key, ""));
  if (!text.empty()) {
    return unsupported(model.path() + "." + std::string(key) + ": " + shown(text) +
                       " is not supported; byte-level BPE has none");
  }
  return {};
}

Status read_model(const JsonPart& top, const TokenizerFile& file, Tokenizer::Parts& parts) {
  if (!top.has("model")) {
    return invalid(top.path() + ": there is no 'model'");
  }
  PARBUCKLE_ASSIGN(const JsonPart model, top.object("model"));
  PARBUCKLE_ASSIGN(const std::string type, model.text_or("type", "BPE"));
  if (type != "BPE") {
    return unsupported(model.path() + ".type: " + shown(type) + " is not supported; BPE is");
  }
  if (!file.has_vocabulary || !file.has_merges) {
    return invalid(model.path() + ": a BPE model needs an object 'vocab' and an array 'merges'");
  }
  PARBUCKLE_TRY(model.only({"type",
                            "dropout",
                            "unk_token",
                            "continuing_subword_prefix",
                            "end_of_word_suffix",
                            "fuse_unk",
                            "byte_fallback",
                            "ignore_merges"}));
  PARBUCKLE_ASSIGN(const double dropout, model.number_or("dropout", 0));
  if (dropout != 0) {
    return unsupported(model.path() + ".dropout: only null or 0 is supported; it makes ids random");
  }
  PARBUCKLE_TRY(refuse_if_set(model, "continuing_subword_prefix"));
  PARBUCKLE_TRY(refuse_if_set(model, "end_of_word_suffix"));
  PARBUCKLE_ASSIGN(const bool byte_fallback, model.flag_or("byte_fallback", false));
  if (byte_fallback) {
    return unsupported(model.path() + ".byte_fallback: true is not supported; byte-level BPE is");
  }
  PARBUCKLE_ASSIGN(parts.ignore_merges, model.flag_or("ignore_merges", false));
  PARBUCKLE_ASSIGN(parts.fuse_unknown, model.flag_or("fuse_unk", false));
  PARBUCKLE_ASSIGN(const std::string unknown, model.text_or("unk_token", ""));
  if (!unknown.empty()) {
    parts.unknown_id = file.vocabulary.find(unknown);
    if (parts.unknown_id < 0) {
      return invalid(model.path() + ".unk_token: " + shown(unknown) + " is not in the vocabulary");
    }
  }
  return {};
}

Status read_merges(const std::string& name, const TokenizerFile& file, Tokenizer::Parts& parts) {
  parts.merges.reserve(file.merges.size());
  std::string joined;
  for (std::size_t i = 0; i < file.merges.size(); ++i) {
    joined = file.merges.left(i);
    joined += file.merges.right(i);
    const std::int32_t left = file.vocabulary.find(file.merges.left(i));
    const std::int32_t right = file.vocabulary.find(file.merges.right(i));
    const std::int32_t result = file.vocabulary.find(joined);
    if (left < 0 || right < 0 || result < 0) {
      std::string_view missing = joined;
      if (left < 0 || right < 0) {
        missing = left < 0 ? file.merges.left(i) : file.merges.right(i);
      }
      return invalid(name + ": model.merges[" + std::to_string(i) + "] names " + shown(missing) +
                     ", which is not in the vocabulary");
    }
    parts.merges.add(left, right, result);
  }
  return {};
}

Status add_token(const JsonPart& json, const Vocabulary& vocabulary, Tokenizer::Parts& parts) {
  PARBUCKLE_TRY(
      json.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
  AddedToken token;
  PARBUCKLE_ASSIGN(token.content, json.text("content"));
  PARBUCKLE_ASSIGN(token.id, json.token_id("id"));
  PARBUCKLE_ASSIGN(token.single_word, json.flag_or("single_word", false));
  PARBUCKLE_ASSIGN(token.lstrip, json.flag_or("lstrip", false));
  PARBUCKLE_ASSIGN(token.rstrip, json.flag_or("rstrip", false));
  PARBUCKLE_ASSIGN(token.special, json.flag_or("special", false));
  PARBUCKLE_ASSIGN(token.normalized, json.flag_or("normalized", !token.special));
  const std::int32_t of_model = vocabulary.find(token.content);
  if (of_model >= 0 && of_model != token.id) {
    return invalid(json.path() + ": " + shown(token.content) + " has id " +
                   std::to_string(token.id) + ", in the vocabulary it has id " +
                   std::to_string(of_model));
  }
  if (of_model < 0 && vocabulary.has_id(token.id)) {
    return invalid(json.path() + ": " + shown(token.content) + " has id " +
                   std::to_string(token.id) + ", which the vocabulary gives to " +
                   shown(vocabulary.text(token.id)));
  }
  const auto [place, fresh] = parts.added.try_emplace(token.id, token);
  if (!fresh && place->second.content != token.content) {
    return invalid(json.path() + ": " + shown(token.content) + " and " +
                   shown(place->second.content) + " share the id " + std::to_string(token.id));
  }
  return {};
}

/// Special tokens are searched before the others: of two with one text the special one counts.
Status fill_matchers(const std::vector<std::int32_t>& order, Tokenizer::Parts& parts) {
  for (const bool special : {true, false}) {
    for (const std::int32_t id : order) {
      AddedToken& token = parts.added.at(id);
      if (token.special != special) {
        continue;
      }
      token.form = token.content;
      if (token.normalized) {
        std::string buffer;
        PARBUCKLE_ASSIGN(const std::string_view form,
                         parts.normalizer.apply(token.content, buffer));
        token.form = form;
      }
      (token.normalized ? parts.in_normalized_text : parts.in_raw_text).add(token);
    }
  }
  return {};
}

Status read_added_tokens(const JsonPart& top,
                         const Vocabulary& vocabulary,
                         Tokenizer::Parts& parts) {
  if (!top.has("added_tokens")) {
    return {};
  }
  PARBUCKLE_ASSIGN(const std::vector<JsonPart> tokens, top.array("added_tokens"));
  std::vector<std::int32_t> order;
  for (const JsonPart& json : tokens) {
    PARBUCKLE_TRY(json.is_object());
    PARBUCKLE_TRY(add_token(json, vocabulary, parts));
    PARBUCKLE_ASSIGN(const std::int32_t id, json.token_id("id"));
    order.push_back(id);
  }
  return fill_matchers(order, parts);
}

void fill_byte_ids(Tokenizer::Parts& parts) {
  for (std::size_t byte = 0; byte < parts.byte_ids.size(); ++byte) {
    const std::string_view text = parts.alphabet.text_of(static_cast<unsigned char>(byte));
    parts.byte_ids[byte] = parts.vocabulary.find(text);
  }
}

}  // namespace

Result<Tokenizer::Parts> build_tokenizer(TokenizerFile file, const std::string& name) {
  Tokenizer::Parts parts;
  const JsonPart top(file.rest, name);
  PARBUCKLE_TRY(check_top(top));
  PARBUCKLE_TRY(read_model(top, file, parts));
  PARBUCKLE_TRY(read_merges(name, file, parts));
  PARBUCKLE_TRY(read_normalizer(top, parts));
  PARBUCKLE_TRY(read_pre_tokenizer(top, parts));
  PARBUCKLE_TRY(read_added_tokens(top, file.vocabulary, parts));
  PARBUCKLE_TRY(read_decoder(top, parts));
  parts.vocabulary = std::move(file.vocabulary);
  PARBUCKLE_TRY(read_post_processor(top, parts));
  fill_byte_ids(parts);
  parts.rest = file.rest.dump();
  return parts;
}

}  // namespace parbuckle
