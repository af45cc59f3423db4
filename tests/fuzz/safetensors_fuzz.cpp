// Any bytes as a .safetensors file: a Status or a table whose every tensor can be read.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/check.h"
#include "engine/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace parbuckle;
  const InputFile file = InputFile::in_memory("fuzz", std::as_bytes(std::span(data, size)));
  const Result<Safetensors> read = read_safetensors(file);
  if (!read.ok()) {
    return 0;
  }
  for (const TensorInfo& tensor : read->tensors) {
    std::vector<std::byte> raw(static_cast<std::size_t>(tensor.end - tensor.begin));
    PARBUCKLE_CHECK(file.read(tensor.begin, raw).ok(), "an accepted tensor lies in the file");
  }
  return 0;
}
