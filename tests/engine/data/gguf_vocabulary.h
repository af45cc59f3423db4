// The vocabulary of a GGUF file, for tests of the tokenizer alone. It trusts the file: the real reader is elsewhere.
#pragma once

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "engine/data/tokenizer.h"

namespace parbuckle {

class GgufKeys {
 public:
  explicit GgufKeys(const std::string& path) : file_(path, std::ios::binary) {}

  GgufVocabulary read() {
    file_.seekg(16);  // magic, version, number of tensors
    const auto pairs = number<std::uint64_t>();
    for (std::uint64_t i = 0; i < pairs && file_.good(); ++i) {
      const std::string key = text();
      const auto type = number<std::uint32_t>();
      value(key, type);
    }
    return std::move(found_);
  }

 private:
  template <class T>
  T number() {
    T out{};
    file_.read(reinterpret_cast<char*>(&out), sizeof(T));
    return out;
  }
  std::string text() {
    std::string out(number<std::uint64_t>(), '\0');
    file_.read(out.data(), static_cast<std::streamsize>(out.size()));
    return out;
  }

  void value(const std::string& key, std::uint32_t type) {
    constexpr std::uint32_t u32 = 4;
    constexpr std::uint32_t flag = 7;
    constexpr std::uint32_t string = 8;
    constexpr std::uint32_t array = 9;
    if (type == string) {
      word(key, text());
    } else if (type == array) {
      list(key);
    } else if (type == u32) {
      id(key, static_cast<std::int32_t>(number<std::uint32_t>()));
    } else if (type == flag) {
      const bool set = number<std::uint8_t>() != 0;
      if (key == "tokenizer.ggml.add_bos_token") {
        found_.add_bos = set;
      }
    } else {
      constexpr std::uint32_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
      file_.seekg(sizes[type], std::ios::cur);
    }
  }

  void word(const std::string& key, std::string value) {
    if (key == "tokenizer.ggml.model") {
      found_.model = std::move(value);
    } else if (key == "tokenizer.ggml.pre") {
      found_.pre = std::move(value);
    } else if (key == "tokenizer.chat_template") {
      found_.chat_template = std::move(value);
    }
  }

  void id(const std::string& key, std::int32_t value) {
    if (key == "tokenizer.ggml.bos_token_id") {
      found_.bos_id = value;
    } else if (key == "tokenizer.ggml.eos_token_id") {
      found_.eos_id = value;
    } else if (key == "tokenizer.ggml.unknown_token_id") {
      found_.unk_id = value;
    } else if (key == "tokenizer.ggml.padding_token_id") {
      found_.pad_id = value;
    }
  }

  void list(const std::string& key) {
    const auto type = number<std::uint32_t>();
    const auto count = number<std::uint64_t>();
    for (std::uint64_t i = 0; i < count && file_.good(); ++i) {
      if (key == "tokenizer.ggml.tokens") {
        found_.tokens.push_back(text());
      } else if (key == "tokenizer.ggml.merges") {
        found_.merges.push_back(text());
      } else if (key == "tokenizer.ggml.token_type") {
        found_.token_types.push_back(number<std::int32_t>());
      } else {
        value(key, type);
      }
    }
  }

  std::ifstream file_;
  GgufVocabulary found_;
};

inline GgufVocabulary read_gguf_vocabulary(const std::string& path) {
  return GgufKeys(path).read();
}

}  // namespace parbuckle
