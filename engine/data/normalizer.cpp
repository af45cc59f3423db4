#include "engine/data/normalizer.h"

#include <cstdlib>
#include <limits>
#include <memory>

#include <utf8proc.h>

#include "engine/data/utf8.h"

namespace parbuckle {
namespace {

// All code points below U+0300 are composed already, and nothing there composes with its neighbour.
bool is_composed_for_sure(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0xCC) {
      return false;
    }
  }
  return true;
}

struct FreeMemory {
  void operator()(utf8proc_uint8_t* memory) const { std::free(memory); }  // NOLINT: C interface
};

Status compose(std::string_view text, std::string& to) {
  utf8proc_uint8_t* raw = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()),
                   &raw,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, FreeMemory> owned(raw);
  if (bytes < 0) {
    return internal_error(std::string("NFC normalisation failed: ") + utf8proc_errmsg(bytes));
  }
  to.assign(reinterpret_cast<const char*>(raw), static_cast<std::size_t>(bytes));
  return {};
}

void lower(std::string_view text, std::string& to) {
  to.clear();
  to.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = decode_utf8(text, at);
    if (point.value ==
        0x130) {  // the one character whose lower case is two, whatever stands around it
      to += "i\xCC\x87";
    } else {
      append_utf8(
          static_cast<std::uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(point.value))),
          to);
    }
    at += point.bytes;
  }
}

}  // namespace

Result<std::string_view> Normalizer::apply(std::string_view text, std::string& buffer) const {
  std::string next;
  for (const NormalizerStep step : steps_) {
    switch (step) {
      case NormalizerStep::nfc:
        if (is_composed_for_sure(text)) {
          continue;
        }
        PARBUCKLE_TRY(compose(text, next));
        break;
      case NormalizerStep::lowercase:
        lower(text, next);
        break;
    }
    buffer.swap(next);
    text = buffer;
  }
  return text;
}

}  // namespace parbuckle
