// UTF-8 as the Unicode standard defines it: no surrogates, no overlong forms, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace parbuckle {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t bytes = 0;  // 0: not a valid sequence
};

/// The code point that starts at `at`. Where the bytes are invalid, `bytes` is 0. REQUIRES: at < text.size().
CodePoint decode_utf8(std::string_view text, std::size_t at);

/// Length of the invalid run at `at` that stands for one U+FFFD (the standard's "maximal subpart"), at least 1.
std::size_t invalid_utf8_bytes(std::string_view text, std::size_t at);

/// Offset of the first invalid byte, or npos.
std::size_t find_invalid_utf8(std::string_view text);

void append_utf8(std::uint32_t code_point, std::string& to);

/// `text` with every maximal invalid subpart replaced by U+FFFD.
std::string lossy_utf8(std::string_view text);

}  // namespace parbuckle
