#include "engine/train/model_tokenizer.h"

#include <string>
#include <utility>
#include <vector>

namespace parbuckle {
namespace {

template <class T>
T value_or(const Gguf& gguf, const char* key, T fallback) {
  const T* const found = gguf.find<T>(key);
  return found != nullptr ? *found : std::move(fallback);
}

std::int32_t id_or_none(const Gguf& gguf, const char* key) {
  return static_cast<std::int32_t>(value_or<std::int64_t>(gguf, key, -1));
}

GgufVocabulary vocabulary_of(const Gguf& gguf) {
  GgufVocabulary out{
      .model = value_or<std::string>(gguf, "tokenizer.ggml.model", ""),
      .pre = value_or<std::string>(gguf, "tokenizer.ggml.pre", ""),
      .tokens = value_or<std::vector<std::string>>(gguf, "tokenizer.ggml.tokens", {}),
      .merges = value_or<std::vector<std::string>>(gguf, "tokenizer.ggml.merges", {}),
      .bos_id = id_or_none(gguf, "tokenizer.ggml.bos_token_id"),
      .eos_id = id_or_none(gguf, "tokenizer.ggml.eos_token_id"),
      .unk_id = id_or_none(gguf, "tokenizer.ggml.unknown_token_id"),
      .pad_id = id_or_none(gguf, "tokenizer.ggml.padding_token_id"),
      .chat_template = value_or<std::string>(gguf, "tokenizer.chat_template", "")};
  for (const std::int64_t type :
       value_or<std::vector<std::int64_t>>(gguf, "tokenizer.ggml.token_type", {})) {
    out.token_types.push_back(static_cast<std::int32_t>(type));
  }
  if (const bool* add = gguf.find<bool>("tokenizer.ggml.add_bos_token"); add != nullptr) {
    out.add_bos = *add;
  }
  return out;
}

Result<Tokenizer> read(const ModelFolder& model) {
  if (const std::string path = model.tokenizer_json_path(); !path.empty()) {
    return Tokenizer::from_folder(model.folder());
  }
  if (model.gguf() == nullptr) {
    return Status(
        Code::not_found,
        model.folder() + ": no tokenizer.json; text cannot be read without one (input_ids can)");
  }
  return Tokenizer::from_gguf_vocabulary(vocabulary_of(*model.gguf()));
}

}  // namespace

Result<Tokenizer> model_tokenizer(const ModelFolder& model) {
  PARBUCKLE_ASSIGN(Tokenizer tokenizer, read(model));
  if (tokenizer.highest_id() >= model.config().vocab_size) {
    return invalid(model.folder() + ": the tokenizer has ids up to " +
                   std::to_string(tokenizer.highest_id()) + ", the embedding only " +
                   std::to_string(model.config().vocab_size) + " rows");
  }
  return tokenizer;
}

}  // namespace parbuckle
