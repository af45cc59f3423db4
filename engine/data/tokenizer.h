// Text to token ids and back, byte-level BPE, as the reference library does it for the same tokenizer.json.
//
// Supported: model BPE; normalizers NFC and Lowercase; pre-tokenizers ByteLevel (last), Split, Digits, or none; added
// tokens of every kind; post-processors ByteLevel and TemplateProcessing; decoder ByteLevel or none; Sequences of these.
// All else is refused by name. `truncation` and `padding` are ignored: data sets have their own rules for length.
// Properties of characters are those of the Unicode version of the installed PCRE2 and utf8proc (14 on Debian 12); on
// characters that are newer than that the reference library may cut differently.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parbuckle/status.h"

namespace parbuckle {

/// The vocabulary of a GGUF file, key by key (tokenizer.ggml.*).
struct GgufVocabulary {
  std::string model;  // "gpt2"; others are refused
  std::string pre;    // "gpt-2", "smollm", "llama-bpe" or "qwen2"; others are refused
  std::vector<std::string> tokens;
  std::vector<std::int32_t>
      token_types;  // 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte; or empty
  std::vector<std::string> merges;
  std::int32_t bos_id = -1;  // -1: none
  std::int32_t eos_id = -1;
  std::int32_t unk_id = -1;
  std::int32_t pad_id = -1;
  std::optional<bool> add_bos;  // absent: only for llama-bpe
  std::string chat_template;    // passed on to tokenizer_config.json
};

/// -1: the tokenizer does not name one.
struct SpecialIds {
  std::int32_t bos = -1;
  std::int32_t eos = -1;
  std::int32_t unk = -1;
  std::int32_t pad = -1;
  friend bool operator==(const SpecialIds&, const SpecialIds&) = default;
};

struct EncodeReport {
  std::int64_t lost_bytes =
      0;  // bytes no token covers: left out, or an unknown token stands for them
  std::int64_t left_out = 0;  // ids beyond the limit of encode_head
};

/// Immutable; copies share their tables. Any number of threads may use one.
class Tokenizer {
 public:
  /// Reads tokenizer.json. `name` stands for the file in messages.
  static Result<Tokenizer> from_json(std::string_view text, const std::string& name);
  static Result<Tokenizer> from_json_file(const std::string& path);
  /// tokenizer.json and, for the special ids, tokenizer_config.json if there is one.
  static Result<Tokenizer> from_folder(const std::string& folder);
  static Result<Tokenizer> from_gguf_vocabulary(GgufVocabulary vocabulary);

  /// `add_special_tokens`: what the post-processor's template puts around the text. Fails on text that is not UTF-8 and
  /// where the file's regular expression gives up; `report` is added to.
  [[nodiscard]] Result<std::vector<std::int32_t>> encode(std::string_view text,
                                                         bool add_special_tokens,
                                                         EncodeReport* report = nullptr) const;

  /// The first `most` ids of a text without special tokens; memory does not grow with the others, which are counted.
  [[nodiscard]] Result<std::vector<std::int32_t>> encode_head(std::string_view text,
                                                              std::size_t most,
                                                              EncodeReport& report) const;

  /// Ids without a token are left out; bytes that are not UTF-8 become U+FFFD.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids, bool skip_special) const;

  /// The text of a token as the file writes it; nullopt where the id has none.
  [[nodiscard]] std::optional<std::string_view> token(std::int32_t id) const;
  /// The id of an added token or a token of the model, by its text in the file; -1: none.
  [[nodiscard]] std::int32_t id_of(std::string_view token) const;
  [[nodiscard]] bool is_special(std::int32_t id) const;
  /// Number of tokens, added ones included.
  [[nodiscard]] std::int64_t vocab_size() const;
  /// The embedding table must have more rows than this.
  [[nodiscard]] std::int32_t highest_id() const;
  [[nodiscard]] const SpecialIds& special_ids() const;
  /// What the template puts before and after a text.
  [[nodiscard]] std::span<const std::int32_t> prefix() const;
  [[nodiscard]] std::span<const std::int32_t> suffix() const;

  /// A tokenizer.json that gives the same ids, here and in the reference library.
  [[nodiscard]] std::string to_json() const;
  /// A tokenizer_config.json beside it: special tokens and chat template.
  [[nodiscard]] std::string config_to_json() const;

  struct Parts;

 private:
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const Parts> parts_;
};

}  // namespace parbuckle
