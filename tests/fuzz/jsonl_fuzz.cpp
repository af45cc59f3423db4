// Any bytes as one line of a JSON-lines file: a record or an error, never a crash; with replacement the text is UTF-8.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/data/json_line.h"
#include "engine/data/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  parbuckle::JsonFields fields{.texts = {"text", "prompt", "completion"},
                               .integers = {"input_ids", "labels"}};
  const bool strict = parbuckle::read_json_record(line, fields).ok();
  fields.replace_invalid = true;
  const auto lenient = parbuckle::read_json_record(line, fields);
  if (strict && (!lenient.ok() || lenient->replaced != 0)) {
    std::abort();  // replacing may only accept more, and changes nothing that was valid
  }
  if (!lenient.ok()) {
    return 0;
  }
  for (const auto& text : lenient->texts) {
    if (text && parbuckle::find_invalid_utf8(*text) != std::string::npos) {
      std::abort();
    }
  }
  return 0;
}
