#include "engine/data/pattern.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace parbuckle {
namespace {

// Backtracking grows with the text at most linearly for the patterns tokenizers use; more than this many steps a byte is
// a pattern that would hang.
constexpr std::size_t steps_per_byte = 64;
constexpr std::size_t least_steps = 10'000'000;

std::string message_of(int error) {
  std::array<unsigned char, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return {text.begin(), std::find(text.begin(), text.end(), 0)};
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::size_t character_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte < 0xC0) {
    return 1;
  }
  if (byte < 0xE0) {
    return 2;
  }
  return byte < 0xF0 ? 3 : 4;
}

}  // namespace

struct Pattern::Compiled {
  explicit Compiled(pcre2_code* compiled) : code(compiled) {}
  ~Compiled() { pcre2_code_free(code); }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  pcre2_code* code;
};

struct Pattern::Finder::Memory {
  explicit Memory(const pcre2_code* code)
      : data(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)) {}
  ~Memory() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  pcre2_match_data* data;
  pcre2_match_context* context;
};

void Pattern::Finder::Free::operator()(Memory* memory) const {
  delete memory;
}

Result<Pattern> Pattern::compile_translated(const std::string& pattern, const std::string& place) {
  // Ruby syntax: ^ and $ stand for the ends of lines.
  constexpr std::uint32_t options =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  int error = 0;
  std::size_t offset = 0;
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_code* code =
      pcre2_compile(bytes_of(pattern), pattern.size(), options, &error, &offset, context);
  pcre2_compile_context_free(context);
  if (code == nullptr) {
    return invalid(place + ": the regular expression does not compile: " + message_of(error));
  }
  // Where the system forbids generated code the interpreter gives the same matches, slower.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return Pattern(std::make_shared<const Compiled>(code));
}

Result<Pattern> Pattern::compile(std::string_view pattern, const std::string& place) {
  const Result<std::string> translated = translate_pattern(pattern);
  if (!translated.ok()) {
    return Status(translated.status().code(), place + ": " + translated.status().message());
  }
  return compile_translated(*translated, place);
}

Result<Pattern> Pattern::literal(std::string_view text, const std::string& place) {
  std::string quoted;
  for (const char c : text) {
    const bool ascii = static_cast<unsigned char>(c) < 0x80;
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || !ascii;
    quoted += plain ? std::string(1, c) : std::string{'\\', c};
  }
  return compile_translated(quoted, place);
}

Pattern::Finder::Finder(const Pattern& pattern)
    : pattern_(&pattern), memory_(new Memory(pattern.compiled_->code)) {
}

void Pattern::Finder::start(std::string_view text) {
  text_ = text;
  position_ = 0;
  last_end_ = std::string_view::npos;
  const std::size_t steps = least_steps + text.size() * steps_per_byte;
  constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
  pcre2_set_match_limit(memory_->context, static_cast<std::uint32_t>(std::min(steps, most)));
}

int Pattern::Finder::search(std::size_t from) {
  const pcre2_code* code = pattern_->compiled_->code;
  const int found = pcre2_match(code,
                                bytes_of(text_),
                                text_.size(),
                                from,
                                PCRE2_NO_UTF_CHECK,
                                memory_->data,
                                memory_->context);
  if (found != PCRE2_ERROR_JIT_STACKLIMIT) {
    return found;
  }
  return pcre2_match(code,
                     bytes_of(text_),
                     text_.size(),
                     from,
                     PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                     memory_->data,
                     memory_->context);
}

bool Pattern::Finder::next(Match& match) {
  while (position_ <= text_.size()) {
    const int found = search(position_);
    if (found < 0) {
      if (found != PCRE2_ERROR_NOMATCH) {
        status_ = exhausted("the tokenizer's regular expression fails on a text of " +
                            std::to_string(text_.size()) + " bytes: " + message_of(found));
      }
      return false;
    }
    const std::size_t* bounds = pcre2_get_ovector_pointer(memory_->data);
    match = {bounds[0], bounds[1]};
    const bool empty_after_match = match.begin == match.end && match.end == last_end_;
    if (!empty_after_match) {
      position_ = match.end;
      last_end_ = match.end;
      return true;
    }
    position_ += position_ < text_.size() ? character_bytes(text_[position_]) : 1;
  }
  return false;
}

}  // namespace parbuckle
