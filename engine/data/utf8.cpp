#include "engine/data/utf8.h"

namespace parbuckle {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

std::uint32_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

struct Lead {
  std::size_t length = 0;     // of the whole sequence; 0: not a lead byte
  std::uint32_t low = 0x80;   // range of the second byte
  std::uint32_t high = 0xBF;  // (excludes overlong forms, surrogates and what is above U+10FFFF)
};

Lead lead_of(std::uint32_t byte) {
  if (byte < 0x80) {
    return {1};
  }
  if (byte < 0xC2) {
    return {};
  }
  if (byte < 0xE0) {
    return {2};
  }
  if (byte < 0xF0) {
    return {3, byte == 0xE0 ? 0xA0U : 0x80U, byte == 0xED ? 0x9FU : 0xBFU};
  }
  if (byte < 0xF5) {
    return {4, byte == 0xF0 ? 0x90U : 0x80U, byte == 0xF4 ? 0x8FU : 0xBFU};
  }
  return {};
}

/// Bytes of the sequence at `at` that are as they should be; equal to the lead's length when all are.
std::size_t good_bytes(std::string_view text, std::size_t at, const Lead& lead) {
  std::size_t good = 1;
  while (good < lead.length && at + good < text.size()) {
    const std::uint32_t byte = byte_at(text, at + good);
    const bool fits =
        good == 1 ? byte >= lead.low && byte <= lead.high : byte >= 0x80 && byte <= 0xBF;
    if (!fits) {
      break;
    }
    ++good;
  }
  return good;
}

}  // namespace

CodePoint decode_utf8(std::string_view text, std::size_t at) {
  const std::uint32_t first = byte_at(text, at);
  const Lead lead = lead_of(first);
  if (lead.length == 1) {
    return {first, 1};
  }
  if (lead.length == 0 || good_bytes(text, at, lead) != lead.length) {
    return {};
  }
  std::uint32_t value = first & (0x7FU >> lead.length);
  for (std::size_t i = 1; i < lead.length; ++i) {
    value = value << 6U | (byte_at(text, at + i) & 0x3FU);
  }
  return {value, lead.length};
}

std::size_t invalid_utf8_bytes(std::string_view text, std::size_t at) {
  const Lead lead = lead_of(byte_at(text, at));
  return lead.length == 0 ? 1 : good_bytes(text, at, lead);
}

std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (byte_at(text, at) < 0x80) {
      ++at;
      continue;
    }
    const CodePoint point = decode_utf8(text, at);
    if (point.bytes == 0) {
      return at;
    }
    at += point.bytes;
  }
  return std::string_view::npos;
}

void append_utf8(std::uint32_t code_point, std::string& to) {
  const auto put = [&to](std::uint32_t byte) { to.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0U | code_point >> 6U);
    put(0x80U | (code_point & 0x3FU));
  } else if (code_point < 0x10000) {
    put(0xE0U | code_point >> 12U);
    put(0x80U | (code_point >> 6U & 0x3FU));
    put(0x80U | (code_point & 0x3FU));
  } else {
    put(0xF0U | code_point >> 18U);
    put(0x80U | (code_point >> 12U & 0x3FU));
    put(0x80U | (code_point >> 6U & 0x3FU));
    put(0x80U | (code_point & 0x3FU));
  }
}

std::string lossy_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = decode_utf8(text, at);
    if (point.bytes == 0) {
      out += replacement;
      at += invalid_utf8_bytes(text, at);
    } else {
      out += text.substr(at, point.bytes);
      at += point.bytes;
    }
  }
  return out;
}

}  // namespace parbuckle
