#include <array>
#include <optional>

#include "engine/data/pattern.h"

namespace parbuckle {
namespace {

// PCRE2's own \s has U+180E, which lost the property White_Space in Unicode 6.3; its \w lacks marks and connectors.
constexpr std::string_view space_members = R"(\p{Z}\x{09}-\x{0d}\x{85})";
constexpr std::string_view word_members =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        PARBUCKLE_TRY(escape());
      } else if (in_class_) {
        PARBUCKLE_TRY(class_member(c));
      } else {
        PARBUCKLE_TRY(outside(c));
      }
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool follows(std::string_view text) const {
    return pattern_.substr(at_, text.size()) == text;
  }
  void copy(std::size_t count) {
    out_ += pattern_.substr(at_, count);
    at_ += count;
  }
  [[nodiscard]] Status refuse(const std::string& what) const {
    return unsupported(what + " at character " + std::to_string(at_ + 1) +
                       " of the regular expression is not supported");
  }

  Status outside(char c) {
    if (c == '[') {
      in_class_ = true;
      copy(follows("[^") ? 2 : 1);
      if (at_ < pattern_.size() && pattern_[at_] == ']') {
        return refuse("an empty class or one that starts with ']'");
      }
      return {};
    }
    if (c == '(' && follows("(?")) {
      return group();
    }
    if (c == '}' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] == '+') {
      return refuse("'}+' (possessive in one engine, repeated in the other)");
    }
    copy(1);
    return {};
  }

  Status group() {
    for (const std::string_view known :
         {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?i)"}) {
      if (follows(known)) {
        copy(known.size());
        return {};
      }
    }
    return refuse("the group '" + std::string(pattern_.substr(at_, 4)) + "'");
  }

  Status class_member(char c) {
    if (c == ']') {
      in_class_ = false;
    } else if (follows("&&")) {
      return refuse("'&&' in a class");
    } else if (c == '[') {
      return refuse("'[' in a class");
    }
    copy(1);
    return {};
  }

  Status escape() {
    if (at_ + 1 == pattern_.size()) {
      return refuse("a backslash at the end");
    }
    const char c = pattern_[at_ + 1];
    if (const auto members = members_of(c)) {
      return members_escape(c, *members);
    }
    if (c == 'u') {
      return hexadecimal();
    }
    if (c == 'v') {  // vertical space in PCRE2, the one character in Oniguruma
      out_ += "\\x{0b}";
      at_ += 2;
      return {};
    }
    constexpr std::string_view same = "pPdDnrtfAzx";
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    if (digit || (letter && same.find(c) == std::string_view::npos)) {
      return refuse(std::string("'\\") + c + "'");
    }
    const bool braces = at_ + 2 < pattern_.size() && pattern_[at_ + 2] == '{';
    const std::size_t close = pattern_.find('}', at_);
    const bool whole = (c == 'p' || c == 'P' || c == 'x') && braces && close < pattern_.size();
    copy(whole ? close + 1 - at_ : 2);
    return {};
  }

  static std::optional<std::string_view> members_of(char c) {
    if (c == 's' || c == 'S') {
      return space_members;
    }
    if (c == 'w' || c == 'W') {
      return word_members;
    }
    return std::nullopt;
  }

  Status members_escape(char c, std::string_view members) {
    const bool negated = c == 'S' || c == 'W';
    if (in_class_ && c == 'W') {
      return refuse("'\\W' in a class");
    }
    if (in_class_ && negated) {
      copy(2);  // differs in U+180E only
      return {};
    }
    if (in_class_) {
      out_ += members;
    } else {
      out_ += negated ? "[^" : "[";
      out_ += members;
      out_ += "]";
    }
    at_ += 2;
    return {};
  }

  Status hexadecimal() {
    const std::string_view digits = pattern_.substr(at_ + 2, 4);
    if (digits.size() != 4 ||
        digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
      return refuse("'\\u' without four hexadecimal digits");
    }
    out_ += "\\x{" + std::string(digits) + "}";
    at_ += 6;
    return {};
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

Result<std::string> translate_pattern(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace parbuckle
