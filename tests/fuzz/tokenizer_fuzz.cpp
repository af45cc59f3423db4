// Any bytes as a tokenizer.json, and any text through a tokenizer that was accepted: an error or ids, never a crash.
// Input: the JSON text; with a NUL byte in it, what follows is text to encode.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/data/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t nul = input.find('\0');
  const auto tokenizer = parbuckle::Tokenizer::from_json(input.substr(0, nul), "fuzz");
  if (!tokenizer.ok()) {
    return 0;
  }
  const std::string_view text = nul == std::string_view::npos ? input : input.substr(nul + 1);
  const auto ids = tokenizer->encode(text, true);
  if (ids.ok()) {
    static_cast<void>(tokenizer->decode(*ids, false));
  }
  // What was read can be written, and what was written can be read and gives the same ids.
  const auto again = parbuckle::Tokenizer::from_json(tokenizer->to_json(), "written");
  if (!again.ok()) {
    std::abort();
  }
  const auto same = again->encode(text, true);
  if (ids.ok() && (!same.ok() || *same != *ids)) {
    std::abort();
  }
  return 0;
}
