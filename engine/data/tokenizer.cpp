#include "engine/data/tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

#include "parbuckle/units.h"

#include "engine/data/file.h"
#include "engine/data/json_part.h"
#include "engine/data/shown.h"
#include "engine/data/tokenizer_parts.h"
#include "engine/data/utf8.h"

namespace parbuckle {
namespace {

/// One text on its way through the pipeline.
class Encoding {
 public:
  Encoding(const Tokenizer::Parts& parts, std::size_t most)
      : parts_(&parts), most_(most), words_(parts.pre_tokenizer) {}

  Status add(std::string_view text) {
    std::vector<AddedTokenMatcher::Piece> pieces;
    parts_->in_raw_text.split(text, pieces);
    for (const AddedTokenMatcher::Piece& piece : pieces) {
      if (piece.id >= 0) {
        ids_.push_back(piece.id);
      } else {
        PARBUCKLE_TRY(add_raw(piece.text));
      }
    }
    return {};
  }

  std::vector<std::int32_t> take() {
    keep_head();
    return std::move(ids_);
  }
  void add_to(EncodeReport& report) const {
    report.lost_bytes += lost_bytes_;
    report.left_out += left_out_;
  }

 private:
  Status add_raw(std::string_view text) {
    PARBUCKLE_ASSIGN(const std::string_view normalized, parts_->normalizer.apply(text, buffer_));
    std::vector<AddedTokenMatcher::Piece> pieces;
    parts_->in_normalized_text.split(normalized, pieces);
    for (const AddedTokenMatcher::Piece& piece : pieces) {
      if (piece.id >= 0) {
        ids_.push_back(piece.id);
      } else {
        PARBUCKLE_TRY(add_plain(piece.text));
      }
    }
    return {};
  }

  Status add_plain(std::string_view text) {
    words_.start(text);
    std::string_view word;
    while (words_.next(word)) {
      add_word(word);
      keep_head();
    }
    return words_.status();
  }

  void keep_head() {
    if (ids_.size() > most_) {
      left_out_ += static_cast<std::int64_t>(ids_.size() - most_);
      ids_.resize(most_);
    }
  }

  void add_word(std::string_view word) {
    if (parts_->ignore_merges) {
      const std::int32_t whole =
          parts_->vocabulary.find(parts_->byte_level ? parts_->alphabet.write(word) : word);
      if (whole >= 0) {
        ids_.push_back(whole);
        return;
      }
    }
    merger_.clear();
    unknown_before_ = false;
    if (parts_->byte_level) {
      for (const char byte : word) {
        add_symbol(parts_->byte_ids[static_cast<unsigned char>(byte)], 1);
      }
    } else {
      for (std::size_t at = 0; at < word.size();) {
        const std::size_t bytes = decode_utf8(word, at).bytes;
        add_symbol(parts_->vocabulary.find(word.substr(at, bytes)), bytes);
        at += bytes;
      }
    }
    merger_.merge(parts_->merges, ids_);
  }

  void add_symbol(std::int32_t id, std::size_t bytes) {
    if (id >= 0) {
      merger_.add(id);
      unknown_before_ = false;
      return;
    }
    lost_bytes_ += static_cast<std::int64_t>(bytes);
    if (parts_->unknown_id >= 0 && !(unknown_before_ && parts_->fuse_unknown)) {
      merger_.add(parts_->unknown_id);
    }
    unknown_before_ = true;
  }

  const Tokenizer::Parts* parts_;
  std::size_t most_;
  PreTokenizer::Cursor words_;
  WordMerger merger_;
  std::string buffer_;
  std::vector<std::int32_t> ids_;
  std::int64_t lost_bytes_ = 0;
  std::int64_t left_out_ = 0;
  bool unknown_before_ = false;
};

/// The bytes a token stands for: its text read in the byte alphabet, or the text itself where it has other characters.
void append_bytes(const ByteAlphabet& alphabet, std::string_view token, std::string& to) {
  const std::size_t begin = to.size();
  for (std::size_t at = 0; at < token.size();) {
    const CodePoint point = decode_utf8(token, at);
    const int byte = point.bytes == 0 ? -1 : alphabet.byte_of(point.value);
    if (byte < 0) {
      to.resize(begin);
      to += token;
      return;
    }
    to.push_back(static_cast<char>(byte));
    at += point.bytes;
  }
}

/// "bos_token" of tokenizer_config.json: a string, or an object with the string in it.
Result<std::int32_t> special_id(const JsonPart& config,
                                std::string_view key,
                                const Tokenizer& tokenizer) {
  if (!config.has(key)) {
    return -1;
  }
  const bool object = config.json().at(std::string(key)).is_object();
  std::string content;
  if (object) {
    PARBUCKLE_ASSIGN(const JsonPart token, config.object(key));
    PARBUCKLE_ASSIGN(content, token.text("content"));
  } else {
    PARBUCKLE_ASSIGN(content, config.text(key));
  }
  const std::int32_t id = tokenizer.id_of(content);
  if (id < 0) {
    return invalid(config.path() + "." + std::string(key) + ": " + shown(content) +
                   " is no token of tokenizer.json beside it");
  }
  return id;
}

Result<SpecialIds> read_special_ids(const std::string& path, const Tokenizer& tokenizer) {
  PARBUCKLE_ASSIGN(const std::string text, read_whole_file(path, 64 * mib));
  const auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return invalid(path + ": expected a JSON object");
  }
  const JsonPart config(json, path);
  SpecialIds ids;
  PARBUCKLE_ASSIGN(ids.bos, special_id(config, "bos_token", tokenizer));
  PARBUCKLE_ASSIGN(ids.eos, special_id(config, "eos_token", tokenizer));
  PARBUCKLE_ASSIGN(ids.unk, special_id(config, "unk_token", tokenizer));
  PARBUCKLE_ASSIGN(ids.pad, special_id(config, "pad_token", tokenizer));
  return ids;
}

}  // namespace

Result<Tokenizer> Tokenizer::from_json(std::string_view text, const std::string& name) {
  PARBUCKLE_ASSIGN(TokenizerFile file, read_tokenizer_file(text, name));
  PARBUCKLE_ASSIGN(Parts parts, build_tokenizer(std::move(file), name));
  return Tokenizer(std::make_shared<const Parts>(std::move(parts)));
}

Result<Tokenizer> Tokenizer::from_json_file(const std::string& path) {
  PARBUCKLE_ASSIGN(const std::string text, read_whole_file(path, gib));
  return from_json(text, path);
}

Result<Tokenizer> Tokenizer::from_folder(const std::string& folder) {
  PARBUCKLE_ASSIGN(Tokenizer tokenizer, from_json_file(folder + "/tokenizer.json"));
  const std::string config = folder + "/tokenizer_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(config, ignored)) {
    return tokenizer;
  }
  PARBUCKLE_ASSIGN(const SpecialIds ids, read_special_ids(config, tokenizer));
  Parts parts = *tokenizer.parts_;
  parts.special = ids;
  return Tokenizer(std::make_shared<const Parts>(std::move(parts)));
}

Result<std::vector<std::int32_t>> Tokenizer::encode_head(std::string_view text,
                                                         std::size_t most,
                                                         EncodeReport& report) const {
  if (const std::size_t bad = find_invalid_utf8(text); bad != std::string_view::npos) {
    return invalid("the text is not UTF-8: byte " + std::to_string(bad + 1));
  }
  Encoding encoding(*parts_, most);
  PARBUCKLE_TRY(encoding.add(text));
  std::vector<std::int32_t> ids = encoding.take();
  encoding.add_to(report);
  return ids;
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text,
                                                    bool add_special_tokens,
                                                    EncodeReport* report) const {
  EncodeReport unused;
  PARBUCKLE_ASSIGN(
      std::vector<std::int32_t> ids,
      encode_head(
          text, std::numeric_limits<std::size_t>::max(), report != nullptr ? *report : unused));
  if (add_special_tokens) {
    ids.insert(ids.begin(), parts_->prefix.begin(), parts_->prefix.end());
    ids.insert(ids.end(), parts_->suffix.begin(), parts_->suffix.end());
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string out;
  bool first = true;
  for (const std::int32_t id : ids) {
    const std::optional<std::string_view> text = token(id);
    if (!text || (skip_special && is_special(id))) {
      continue;
    }
    if (parts_->decode_bytes) {
      append_bytes(parts_->alphabet, *text, out);
    } else {
      out += first ? "" : " ";
      out += *text;
    }
    first = false;
  }
  return lossy_utf8(out);
}

std::optional<std::string_view> Tokenizer::token(std::int32_t id) const {
  if (const auto found = parts_->added.find(id); found != parts_->added.end()) {
    return found->second.form;
  }
  if (!parts_->vocabulary.has_id(id)) {
    return std::nullopt;
  }
  return parts_->vocabulary.text(id);
}

std::int32_t Tokenizer::id_of(std::string_view token) const {
  for (const auto& [id, added] : parts_->added) {
    if (added.content == token) {
      return id;
    }
  }
  return parts_->vocabulary.find(token);
}

bool Tokenizer::is_special(std::int32_t id) const {
  const auto found = parts_->added.find(id);
  return found != parts_->added.end() && found->second.special;
}

std::int64_t Tokenizer::vocab_size() const {
  auto count = static_cast<std::int64_t>(parts_->vocabulary.size());
  for (const auto& [id, added] : parts_->added) {
    count += parts_->vocabulary.has_id(id) ? 0 : 1;
  }
  return count;
}

std::int32_t Tokenizer::highest_id() const {
  std::int32_t highest = parts_->vocabulary.highest_id();
  for (const auto& [id, added] : parts_->added) {
    highest = std::max(highest, id);
  }
  return highest;
}

const SpecialIds& Tokenizer::special_ids() const {
  return parts_->special;
}

std::span<const std::int32_t> Tokenizer::prefix() const {
  return parts_->prefix;
}

std::span<const std::int32_t> Tokenizer::suffix() const {
  return parts_->suffix;
}

}  // namespace parbuckle
