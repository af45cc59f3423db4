// The byte alphabet of GPT-2: each of the 256 bytes is written as one printable character, so that a vocabulary of
// byte strings can be stored as text. Printable Latin-1 bytes stand for themselves, the others for U+0100 onwards.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace parbuckle {

class ByteAlphabet {
 public:
  ByteAlphabet();

  /// The character of a byte, as UTF-8.
  [[nodiscard]] std::string_view text_of(unsigned char byte) const { return texts_[byte]; }
  /// The byte of a character, or -1 where the alphabet has none.
  [[nodiscard]] int byte_of(std::uint32_t code_point) const {
    return code_point < bytes_.size() ? bytes_[code_point] : -1;
  }
  /// Each byte of `bytes` written as its character.
  [[nodiscard]] std::string write(std::string_view bytes) const;

 private:
  std::array<std::string, 256> texts_;
  std::array<int, 0x144> bytes_{};
};

}  // namespace parbuckle
