#include "engine/data/json_line.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "engine/data/shown.h"
#include "engine/data/utf8.h"

namespace parbuckle {
namespace {

constexpr std::size_t deepest = 128;
constexpr std::uint32_t replacement = 0xFFFD;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class LineParser {
 public:
  LineParser(std::string_view line, const JsonFields& fields) : line_(line), fields_(&fields) {
    record_.texts.resize(fields.texts.size());
    record_.integers.resize(fields.integers.size());
  }

  Result<JsonRecord> run() {
    skip_space();
    if (peek() == '[') {
      return fault("a JSON array, not JSON lines: write one object a line");
    }
    if (peek() != '{') {
      return fault("expected an object, found " + kind());
    }
    ++at_;
    skip_space();
    if (peek() == '}') {
      ++at_;
    } else {
      PARBUCKLE_TRY(members());
    }
    skip_space();
    if (at_ < line_.size()) {
      return fault("more follows on the same line; one record a line is allowed");
    }
    return std::move(record_);
  }

 private:
  [[nodiscard]] char peek() const { return at_ < line_.size() ? line_[at_] : '\0'; }
  [[nodiscard]] Status fault_at(std::size_t at, const std::string& what) const {
    return invalid("column " + std::to_string(at + 1) + ": " + what);
  }
  [[nodiscard]] Status fault(const std::string& what) const { return fault_at(at_, what); }

  void skip_space() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) {
      ++at_;
    }
  }

  /// What the next value is, for messages.
  [[nodiscard]] std::string kind() const {
    const char c = peek();
    if (at_ >= line_.size()) {
      return "the end of the line";
    }
    if (c == '"') {
      return "a string";
    }
    if (c == '[') {
      return "an array";
    }
    if (c == '{') {
      return "an object";
    }
    if (c == '-' || is_digit(c)) {
      return "a number";
    }
    const std::string_view rest = line_.substr(at_);
    for (const std::string_view word : {"null", "true", "false"}) {
      if (rest.starts_with(word)) {
        return std::string(word);
      }
    }
    return shown(rest.substr(0, 1));
  }

  Status expect(char c) {
    skip_space();
    if (peek() != c || at_ >= line_.size()) {
      return fault(std::string("expected '") + c + "', found " + kind());
    }
    ++at_;
    return {};
  }

  Status members() {
    while (true) {
      skip_space();
      const std::size_t begin = at_;
      std::string key;
      PARBUCKLE_TRY(string(&key));
      if (std::find(record_.keys.begin(), record_.keys.end(), key) != record_.keys.end()) {
        return fault_at(begin, "the field " + shown(key) + " is there twice");
      }
      PARBUCKLE_TRY(expect(':'));
      skip_space();
      PARBUCKLE_TRY(member_value(key));
      record_.keys.push_back(std::move(key));
      skip_space();
      if (peek() == '}') {
        ++at_;
        return {};
      }
      PARBUCKLE_TRY(expect(','));
    }
  }

  Status member_value(const std::string& key) {
    const auto& texts = fields_->texts;
    if (const auto found = std::find(texts.begin(), texts.end(), key); found != texts.end()) {
      if (peek() != '"') {
        return fault("the field " + shown(key) + " is " + kind() + "; expected a string");
      }
      return string(&record_.texts[static_cast<std::size_t>(found - texts.begin())].emplace());
    }
    const auto& lists = fields_->integers;
    if (const auto found = std::find(lists.begin(), lists.end(), key); found != lists.end()) {
      if (peek() != '[') {
        return fault("the field " + shown(key) + " is " + kind() +
                     "; expected an array of whole numbers");
      }
      return integers(record_.integers[static_cast<std::size_t>(found - lists.begin())].emplace());
    }
    return skip_value();
  }

  Status integers(std::vector<std::int32_t>& to) {
    ++at_;
    skip_space();
    if (peek() == ']') {
      ++at_;
      return {};
    }
    while (true) {
      skip_space();
      const std::size_t begin = at_;
      const std::string found = kind();
      std::int32_t value = 0;
      const auto parsed = std::from_chars(line_.data() + at_, line_.data() + line_.size(), value);
      if (parsed.ec != std::errc()) {
        return fault_at(begin, "expected a whole number of 32 bits, found " + found);
      }
      PARBUCKLE_TRY(number());
      if (line_.data() + at_ != parsed.ptr) {
        return fault_at(
            begin, "expected a whole number, found " + shown(line_.substr(begin, at_ - begin)));
      }
      to.push_back(value);
      skip_space();
      if (peek() == ']') {
        ++at_;
        return {};
      }
      PARBUCKLE_TRY(expect(','));
    }
  }

  /// A string of which only the syntax counts (`to` null), or its text.
  Status string(std::string* to) {
    PARBUCKLE_TRY(expect('"'));
    if (to != nullptr) {
      // The text is never longer than its escaped form unless invalid bytes are replaced, which is rare.
      const std::size_t close = line_.find('"', at_);
      to->reserve(close == std::string_view::npos ? 0 : close - at_);
    }
    while (at_ < line_.size()) {
      const char c = line_[at_];
      if (c == '"') {
        ++at_;
        return {};
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        return fault("a control character inside a string; write it as an escape");
      }
      if (c == '\\') {
        PARBUCKLE_TRY(escape(to));
      } else {
        PARBUCKLE_TRY(character(to));
      }
    }
    return fault("the line ends inside a string");
  }

  Status character(std::string* to) {
    const std::size_t plain = std::min(line_.find_first_of("\"\\", at_), line_.size());
    std::size_t end = at_;
    while (end < plain && static_cast<unsigned char>(line_[end]) >= 0x20 &&
           static_cast<unsigned char>(line_[end]) < 0x80) {
      ++end;
    }
    if (end == at_) {
      const CodePoint point = decode_utf8(line_, at_);
      if (point.bytes == 0) {
        return invalid_bytes(to);
      }
      end = at_ + point.bytes;
    }
    if (to != nullptr) {
      *to += line_.substr(at_, end - at_);
    }
    at_ = end;
    return {};
  }

  Status invalid_bytes(std::string* to) {
    if (!fields_->replace_invalid) {
      return fault("byte " + shown(line_.substr(at_, 1)) + " is not UTF-8");
    }
    replace(to);
    at_ += invalid_utf8_bytes(line_, at_);
    return {};
  }

  void replace(std::string* to) {
    ++record_.replaced;
    if (to != nullptr) {
      append_utf8(replacement, *to);
    }
  }

  Status escape(std::string* to) {
    constexpr std::string_view names = "\"\\/bfnrt";
    constexpr std::string_view values = "\"\\/\b\f\n\r\t";
    const char c = at_ + 1 < line_.size() ? line_[at_ + 1] : '\0';
    if (c == 'u') {
      return unicode_escape(to);
    }
    const std::size_t which = c == '\0' ? std::string_view::npos : names.find(c);
    if (which == std::string_view::npos) {
      return fault("an escape that JSON does not have");
    }
    if (to != nullptr) {
      to->push_back(values[which]);
    }
    at_ += 2;
    return {};
  }

  /// The four digits of an escape at `at`, or nothing where there is none.
  [[nodiscard]] std::optional<std::uint32_t> unit_at(std::size_t at) const {
    if (line_.substr(std::min(at, line_.size()), 2) != "\\u" || at + 6 > line_.size()) {
      return std::nullopt;
    }
    std::uint32_t unit = 0;
    const char* end = line_.data() + at + 6;
    const auto parsed = std::from_chars(end - 4, end, unit, 16);
    return parsed.ec == std::errc() && parsed.ptr == end ? std::optional(unit) : std::nullopt;
  }

  Status unicode_escape(std::string* to) {
    const auto first = unit_at(at_);
    if (!first) {
      return fault("'\\u' without four hexadecimal digits");
    }
    std::uint32_t point = *first;
    std::size_t length = 6;
    if (point >= 0xD800 && point < 0xE000) {
      const auto second = point < 0xDC00 ? unit_at(at_ + 6) : std::nullopt;
      if (!second || *second < 0xDC00 || *second >= 0xE000) {
        return lone_surrogate(to);
      }
      point = 0x10000 + ((point & 0x3FFU) << 10U) + (*second & 0x3FFU);
      length = 12;
    }
    if (to != nullptr) {
      append_utf8(point, *to);
    }
    at_ += length;
    return {};
  }

  Status lone_surrogate(std::string* to) {
    if (!fields_->replace_invalid) {
      return fault(std::string(line_.substr(at_, 6)) +
                   " is half of a surrogate pair, which has no UTF-8 form");
    }
    replace(to);
    at_ += 6;
    return {};
  }

  Status number() {
    const std::size_t begin = at_;
    at_ += peek() == '-' ? 1U : 0U;
    const bool zero = peek() == '0';
    const std::size_t whole = digits();
    bool good = whole > 0 && !(zero && whole > 1);
    if (good && peek() == '.') {
      ++at_;
      good = digits() > 0;
    }
    if (good && (peek() == 'e' || peek() == 'E')) {
      ++at_;
      at_ += peek() == '+' || peek() == '-' ? 1U : 0U;
      good = digits() > 0;
    }
    return good ? Status() : fault_at(begin, "not a JSON number");
  }

  std::size_t digits() {
    const std::size_t begin = at_;
    while (is_digit(peek())) {
      ++at_;
    }
    return at_ - begin;
  }

  /// A value that holds no others.
  Status scalar() {
    const char c = peek();
    if (c == '"') {
      return string(nullptr);
    }
    if (c == '-' || is_digit(c)) {
      return number();
    }
    for (const std::string_view word : {"null", "true", "false"}) {
      if (line_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return {};
      }
    }
    return fault("expected a value, found " + kind());
  }

  /// Enters an array or object. True where it is empty; else the position is before its first value.
  Result<bool> open() {
    if (open_.size() + 1 == deepest) {
      return fault("nested deeper than " + std::to_string(deepest) + " levels");
    }
    open_.push_back(line_[at_]);
    ++at_;
    skip_space();
    if (peek() == (open_.back() == '{' ? '}' : ']')) {
      return true;
    }
    if (open_.back() == '{') {
      PARBUCKLE_TRY(key_and_colon());
    }
    return false;
  }

  Status key_and_colon() {
    PARBUCKLE_TRY(string(nullptr));
    PARBUCKLE_TRY(expect(':'));
    skip_space();
    return {};
  }

  /// Closes what ends here; leaves the position before the next value, if one follows.
  Status close_or_go_on() {
    while (!open_.empty()) {
      skip_space();
      if (peek() == (open_.back() == '{' ? '}' : ']')) {
        open_.pop_back();
        ++at_;
        continue;
      }
      PARBUCKLE_TRY(expect(','));
      skip_space();
      return open_.back() == '{' ? key_and_colon() : Status();
    }
    return {};
  }

  /// Any value; its syntax is checked and nothing is kept. No recursion: the nesting is data.
  Status skip_value() {
    do {
      bool complete = true;
      if (peek() == '{' || peek() == '[') {
        PARBUCKLE_ASSIGN(complete, open());
      } else {
        PARBUCKLE_TRY(scalar());
      }
      if (complete) {
        PARBUCKLE_TRY(close_or_go_on());
      }
    } while (!open_.empty());
    return {};
  }

  std::string_view line_;
  const JsonFields* fields_;
  std::size_t at_ = 0;
  std::string open_;  // brackets of the value being skipped
  JsonRecord record_;
};

}  // namespace

Result<JsonRecord> read_json_record(std::string_view line, const JsonFields& fields) {
  return LineParser(line, fields).run();
}

}  // namespace parbuckle
