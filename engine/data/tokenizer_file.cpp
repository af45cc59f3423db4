#include "engine/data/tokenizer_file.h"

#include <utility>

#include "engine/data/shown.h"

namespace parbuckle {

void MergeTexts::add(std::string_view left, std::string_view right) {
  texts_ += left;
  ends_.push_back(static_cast<std::uint32_t>(texts_.size()));
  texts_ += right;
  ends_.push_back(static_cast<std::uint32_t>(texts_.size()));
}

std::string_view MergeTexts::part(std::size_t index) const {
  const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
  return std::string_view(texts_).substr(begin, ends_[index] - begin);
}

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t deepest = 64;
// Vocabularies of published models stay below 10 MB of text; offsets are 32-bit.
constexpr std::size_t longest_file = std::size_t{1} << 30U;

/// Takes the parser's events: the two long lists go to their own containers, the rest becomes a JSON value.
class Handler {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  explicit Handler(std::string name) : name_(std::move(name)) {}

  bool null() { return scalar(Json(nullptr)); }
  bool boolean(bool value) { return scalar(Json(value)); }
  bool number_float(number_float_t value, const string_t& /*text*/) { return scalar(Json(value)); }
  bool binary(binary_t& /*value*/) { return fail("binary value"); }
  bool number_integer(number_integer_t value) {
    return inside_ == Inside::vocabulary
               ? fail("model.vocab gives " + shown(key_) + " the id " + std::to_string(value) +
                      "; ids go from 0 to 2147483646")
               : scalar(Json(value));
  }
  bool number_unsigned(number_unsigned_t value) {
    return inside_ == Inside::vocabulary ? vocabulary_entry(value) : scalar(Json(value));
  }
  bool string(string_t& value) {
    if (inside_ == Inside::merges) {
      return merge_string(value);
    }
    if (inside_ == Inside::merge_pair) {
      pair_.push_back(std::move(value));
      return true;
    }
    return scalar(Json(std::move(value)));
  }

  bool start_object(std::size_t /*elements*/) {
    if (inside_ == Inside::rest && at_model_key("vocab")) {
      inside_ = Inside::vocabulary;
      file_.has_vocabulary = true;
      return true;
    }
    return open(Json::object());
  }
  bool end_object() {
    if (inside_ == Inside::vocabulary) {
      inside_ = Inside::rest;
      return true;
    }
    stack_.pop_back();
    return true;
  }
  bool start_array(std::size_t /*elements*/) {
    if (inside_ == Inside::merges) {
      inside_ = Inside::merge_pair;
      pair_.clear();
      return true;
    }
    if (inside_ == Inside::rest && at_model_key("merges")) {
      inside_ = Inside::merges;
      file_.has_merges = true;
      return true;
    }
    return open(Json::array());
  }
  bool end_array() {
    if (inside_ == Inside::merge_pair) {
      inside_ = Inside::merges;
      return merge_pair();
    }
    if (inside_ == Inside::merges) {
      inside_ = Inside::rest;
      return true;
    }
    stack_.pop_back();
    return true;
  }
  bool key(string_t& value) {
    if (inside_ == Inside::rest) {
      const bool seen_list =
          stack_.size() == 2 && in_model_ &&
          ((value == "vocab" && file_.has_vocabulary) || (value == "merges" && file_.has_merges));
      if (stack_.back()->contains(value) || seen_list) {
        return fail("the key " + shown(value) + " is given twice");
      }
      if (stack_.size() == 1) {
        in_model_ = value == "model";
      }
    }
    key_ = std::move(value);
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token, const Json::exception& error) {
    static_cast<void>(token);
    static_cast<void>(error);
    return fail("not valid JSON at byte " + std::to_string(position));
  }

  [[nodiscard]] const Status& fault() const { return fault_; }
  TokenizerFile take() {
    file_.rest = std::move(root_);
    return std::move(file_);
  }

 private:
  enum class Inside { rest, vocabulary, merges, merge_pair };

  bool fail(const std::string& what) {
    if (fault_.ok()) {
      fault_ = invalid(name_ + ": " + what);
    }
    return false;
  }

  [[nodiscard]] bool at_model_key(std::string_view key) const {
    return stack_.size() == 2 && in_model_ && stack_.back()->is_object() && key_ == key;
  }

  Json* place(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }

  bool open(Json value) {
    switch (inside_) {
      case Inside::vocabulary:
        return fail("model.vocab gives " + shown(key_) + " something that is not a number");
      case Inside::merges:
      case Inside::merge_pair:
        return fail_merge("is not two tokens");
      case Inside::rest:
        break;
    }
    if (stack_.size() == deepest) {
      return fail("nested deeper than " + std::to_string(deepest) + " levels");
    }
    stack_.push_back(place(std::move(value)));
    return true;
  }

  bool scalar(Json value) {
    switch (inside_) {
      case Inside::vocabulary:
        return fail("model.vocab gives " + shown(key_) + " " + value.dump() +
                    "; ids are whole numbers");
      case Inside::merges:
      case Inside::merge_pair:
        return fail_merge("is not two tokens");
      case Inside::rest:
        break;
    }
    place(std::move(value));
    return true;
  }

  bool vocabulary_entry(std::uint64_t id) {
    constexpr std::uint64_t ids = (std::uint64_t{1} << 31U) - 1;
    if (id >= ids) {
      return fail("model.vocab gives " + shown(key_) + " the id " + std::to_string(id) +
                  "; ids go from 0 to 2147483646");
    }
    // Ids far beyond the number of tokens would make the table huge; no published vocabulary has such gaps.
    if (id > (std::uint64_t{1} << 24U)) {
      return fail("model.vocab gives " + shown(key_) + " the id " + std::to_string(id) +
                  "; at most 16777216 is supported");
    }
    const auto narrow = static_cast<std::int32_t>(id);
    if (file_.vocabulary.find(key_) >= 0) {
      return fail("model.vocab has " + shown(key_) + " twice");
    }
    if (!file_.vocabulary.add(key_, narrow)) {
      return fail("model.vocab gives the id " + std::to_string(id) + " to both " +
                  shown(file_.vocabulary.text(narrow)) + " and " + shown(key_));
    }
    return true;
  }

  bool fail_merge(const std::string& what) {
    return fail("model.merges[" + std::to_string(file_.merges.size()) + "] " + what);
  }

  bool one_form(bool pairs) {
    const bool first = file_.merges.size() == 0;
    if (!first && pairs != pairs_) {
      return fail_merge("mixes \"left right\" strings and [left, right] pairs");
    }
    pairs_ = pairs;
    return true;
  }

  bool merge_string(const std::string& text) {
    if (!one_form(false)) {
      return false;
    }
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || space == 0 || space + 1 == text.size() ||
        text.find(' ', space + 1) != std::string::npos) {
      return fail_merge("is " + shown(text) + ", not two tokens with one space between them");
    }
    file_.merges.add(std::string_view(text).substr(0, space),
                     std::string_view(text).substr(space + 1));
    return true;
  }

  bool merge_pair() {
    if (!one_form(true)) {
      return false;
    }
    if (pair_.size() != 2 || pair_[0].empty() || pair_[1].empty()) {
      return fail_merge("has " + std::to_string(pair_.size()) + " parts; a merge is two tokens");
    }
    file_.merges.add(pair_[0], pair_[1]);
    return true;
  }

  std::string name_;
  TokenizerFile file_;
  Json root_;
  std::vector<Json*> stack_;
  std::string key_;
  std::vector<std::string> pair_;
  Inside inside_ = Inside::rest;
  bool in_model_ = false;
  bool pairs_ = false;
  Status fault_;
};

}  // namespace

Result<TokenizerFile> read_tokenizer_file(std::string_view text, const std::string& name) {
  if (text.size() > longest_file) {
    return invalid(name + ": " + std::to_string(text.size()) + " bytes; at most 1 GiB is read");
  }
  Handler handler(name);
  if (!Json::sax_parse(text.begin(), text.end(), &handler)) {
    return handler.fault().ok() ? invalid(name + ": not valid JSON") : handler.fault();
  }
  TokenizerFile file = handler.take();
  if (!file.rest.is_object()) {
    return invalid(name + ": expected a JSON object");
  }
  return file;
}

}  // namespace parbuckle
