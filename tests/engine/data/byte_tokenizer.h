// The smallest byte-level tokenizer: one token a byte, id = byte, and an end token 256.
#pragma once

#include <nlohmann/json.hpp>

#include "engine/data/byte_level.h"
#include "engine/data/tokenizer.h"

namespace parbuckle {

inline constexpr std::int32_t end_id = 256;

inline Tokenizer byte_tokenizer() {
  GgufVocabulary vocabulary{.model = "gpt2", .pre = "gpt-2", .eos_id = end_id};
  const ByteAlphabet alphabet;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.emplace_back(alphabet.text_of(static_cast<unsigned char>(byte)));
    vocabulary.token_types.push_back(1);
  }
  vocabulary.tokens.emplace_back("<|end|>");
  vocabulary.token_types.push_back(3);
  return *Tokenizer::from_gguf_vocabulary(vocabulary);
}

}  // namespace parbuckle
