#include <string>

#include <nlohmann/json.hpp>

#include "engine/data/tokenizer_parts.h"

namespace parbuckle {
namespace {

using Json = nlohmann::ordered_json;

std::string json_string(std::string_view text) {
  return Json(text).dump();
}

/// Members of a list, one a line.
class List {
 public:
  List(std::string& to, char open) : to_(&to) { *to_ += open; }
  void item(const std::string& text) {
    *to_ += first_ ? "\n   " : ",\n   ";
    *to_ += text;
    first_ = false;
  }
  void end(char close) {
    *to_ += first_ ? "" : "\n  ";
    *to_ += close;
  }

 private:
  std::string* to_;
  bool first_ = true;
};

void write_vocabulary(const Vocabulary& vocabulary, std::string& to) {
  List list(to, '{');
  for (std::int32_t id = 0; id <= vocabulary.highest_id(); ++id) {
    if (vocabulary.has_id(id)) {
      list.item(json_string(vocabulary.text(id)) + ": " + std::to_string(id));
    }
  }
  list.end('}');
}

/// "left right" strings, which every version of the reference library reads; pairs where a token has a space in it.
void write_merges(const Tokenizer::Parts& parts, std::string& to) {
  const std::vector<MergeTable::Pair> pairs = parts.merges.pairs();
  bool spaces = false;
  for (const MergeTable::Pair& pair : pairs) {
    spaces |=
        pair.left >= 0 && (parts.vocabulary.text(pair.left).find(' ') != std::string_view::npos ||
                           parts.vocabulary.text(pair.right).find(' ') != std::string_view::npos);
  }
  List list(to, '[');
  for (const MergeTable::Pair& pair : pairs) {
    if (pair.left < 0) {
      continue;
    }
    const std::string left(parts.vocabulary.text(pair.left));
    const std::string right(parts.vocabulary.text(pair.right));
    list.item(spaces ? "[" + json_string(left) + ", " + json_string(right) + "]"
                     : json_string(left + " " + right));
  }
  list.end(']');
}

void write_model(const Json& settings, const Tokenizer::Parts& parts, std::string& to) {
  to += "{";
  for (const auto& [key, value] : settings.items()) {
    to += "\n  " + json_string(key) + ": " + value.dump() + ",";
  }
  to += "\n  \"vocab\": ";
  write_vocabulary(parts.vocabulary, to);
  to += ",\n  \"merges\": ";
  write_merges(parts, to);
  to += "\n }";
}

}  // namespace

std::string Tokenizer::to_json() const {
  const Json rest = Json::parse(parts_->rest);
  std::string out = "{";
  for (const auto& [key, value] : rest.items()) {
    out += out.size() == 1 ? "\n " : ",\n ";
    out += json_string(key) + ": ";
    if (key == "model") {
      write_model(value, *parts_, out);
    } else {
      out += value.dump();
    }
  }
  return out + "\n}\n";
}

std::string Tokenizer::config_to_json() const {
  Json config = Json::object();
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  const auto put = [&](const char* key, std::int32_t id) {
    if (const auto text = token(id)) {
      config[key] = std::string(*text);
    }
  };
  put("bos_token", parts_->special.bos);
  put("eos_token", parts_->special.eos);
  put("unk_token", parts_->special.unk);
  put("pad_token", parts_->special.pad);
  config["clean_up_tokenization_spaces"] = false;
  if (!parts_->chat_template.empty()) {
    config["chat_template"] = parts_->chat_template;
  }
  return config.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace parbuckle
