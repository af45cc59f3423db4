#include "engine/checkpoint/quote.h"

namespace parbuckle {

std::string quote(std::string_view name) {
  constexpr std::size_t longest = 80;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "'";
  for (const char c : name.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      out += "\\x";
      out += digits[byte >> 4U];
      out += digits[byte & 15U];
    } else {
      out += c;
    }
  }
  return out + (name.size() > longest ? "...'" : "'");
}

}  // namespace parbuckle
