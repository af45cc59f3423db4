// What a Tokenizer is made of, built from a tokenizer file.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "parbuckle/status.h"

#include "engine/data/added_tokens.h"
#include "engine/data/bpe.h"
#include "engine/data/byte_level.h"
#include "engine/data/normalizer.h"
#include "engine/data/pre_tokenizer.h"
#include "engine/data/tokenizer.h"
#include "engine/data/tokenizer_file.h"
#include "engine/data/vocabulary.h"

namespace parbuckle {

struct Tokenizer::Parts {
  Vocabulary vocabulary;  // of the model
  MergeTable merges;
  std::unordered_map<std::int32_t, AddedToken> added;  // by id
  AddedTokenMatcher in_raw_text;
  AddedTokenMatcher in_normalized_text;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  ByteAlphabet alphabet;
  bool byte_level = false;     // words are bytes written in the alphabet; else characters
  bool decode_bytes = false;   // decoder ByteLevel; else tokens joined by spaces
  bool ignore_merges = false;  // a word that is a token needs no merging
  bool fuse_unknown = false;
  std::int32_t unknown_id = -1;              // stands for what has no token; -1: it is left out
  std::array<std::int32_t, 256> byte_ids{};  // byte level: token of each byte, or -1
  std::vector<std::int32_t> prefix;
  std::vector<std::int32_t> suffix;
  SpecialIds special;
  std::string chat_template;
  std::string rest;  // the file without its two long lists
};

/// Turns a file into parts, or says what in it we do not implement.
Result<Tokenizer::Parts> build_tokenizer(TokenizerFile file, const std::string& name);

}  // namespace parbuckle
