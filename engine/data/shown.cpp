#include "engine/data/shown.h"

#include <array>
#include <cstdio>

#include "engine/data/utf8.h"

namespace parbuckle {

std::string shown(std::string_view text) {
  constexpr std::size_t longest = 60;
  std::string out = "'";
  for (std::size_t at = 0; at < text.size();) {
    if (out.size() > longest) {
      return out + "...'";
    }
    const CodePoint point = decode_utf8(text, at);
    if (point.bytes == 0 || point.value < 0x20 || point.value == 0x7F) {
      std::array<char, 8> escaped{};
      const unsigned byte = static_cast<unsigned char>(text[at]);
      std::snprintf(escaped.data(), escaped.size(), "\\x%02x", byte);
      out += escaped.data();
      ++at;
    } else {
      out += text.substr(at, point.bytes);
      at += point.bytes;
    }
  }
  return out + "'";
}

}  // namespace parbuckle
