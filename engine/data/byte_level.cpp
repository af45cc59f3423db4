#include "engine/data/byte_level.h"

#include "engine/data/utf8.h"

namespace parbuckle {
namespace {

bool stands_for_itself(std::uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

}  // namespace

ByteAlphabet::ByteAlphabet() {
  bytes_.fill(-1);
  std::uint32_t next = 0x100;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const std::uint32_t code_point = stands_for_itself(byte) ? byte : next++;
    append_utf8(code_point, texts_[byte]);
    bytes_[code_point] = static_cast<int>(byte);
  }
}

std::string ByteAlphabet::write(std::string_view bytes) const {
  std::string out;
  out.reserve(bytes.size() + bytes.size() / 4);
  for (const char byte : bytes) {
    out += texts_[static_cast<unsigned char>(byte)];
  }
  return out;
}

}  // namespace parbuckle
