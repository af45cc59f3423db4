// Any bytes as a GGUF file: a Status, or a table whose readable tensors convert and a config or its refusal.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/check.h"
#include "engine/checkpoint/config_json.h"
#include "engine/checkpoint/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace parbuckle;
  const InputFile file = InputFile::in_memory("fuzz", std::as_bytes(std::span(data, size)));
  const Result<Gguf> read = read_gguf(file);
  if (!read.ok()) {
    return 0;
  }
  for (const TensorInfo& tensor : read->tensors) {
    std::vector<std::byte> raw(static_cast<std::size_t>(tensor.end - tensor.begin));
    PARBUCKLE_CHECK(file.read(tensor.begin, raw).ok(), "an accepted tensor lies in the file");
    if (is_readable(tensor.type)) {
      const std::int64_t elements = *element_count(tensor.shape);
      std::vector<float> values(static_cast<std::size_t>(elements));
      to_floats(tensor.type, raw.data(), elements, values.data());
    }
  }
  static_cast<void>(config_from_gguf(*read).ok());
  return 0;
}
