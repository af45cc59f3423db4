// Reading a GGUF file, versions 2 and 3: typed metadata and the table of tensors. A trust boundary like safetensors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "parbuckle/status.h"

#include "engine/checkpoint/input_file.h"
#include "engine/checkpoint/tensor_info.h"

namespace parbuckle {

/// Metadata longer than this is refused: it would have to be held in memory.
inline constexpr std::int64_t gguf_metadata_limit = 100'000'000;

/// One metadata value. All integer widths are held as 64 bits, both float widths as double.
using GgufValue = std::variant<bool,
                               std::int64_t,
                               double,
                               std::string,
                               std::vector<std::int64_t>,  // arrays of integers or booleans
                               std::vector<double>,
                               std::vector<std::string>>;

struct Gguf {
  std::string file;  // for messages
  std::uint32_t version = 0;
  std::string architecture;
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<TensorInfo> tensors;  // in the order of the table; shapes outermost first

  /// The value of a key, if it is there and of that type (std::string, std::int64_t, ...); else null.
  template <class T>
  [[nodiscard]] const T* find(std::string_view key) const {
    const auto at = metadata.find(key);
    return at == metadata.end() ? nullptr : std::get_if<T>(&at->second);
  }
  [[nodiscard]] bool has(std::string_view key) const { return metadata.contains(key); }
};

/// The message names the file, the key or tensor, what was found and what is allowed.
Result<Gguf> read_gguf(const InputFile& file);

}  // namespace parbuckle
