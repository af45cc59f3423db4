#include "parbuckle/dtype.h"

#include <array>
#include <cstddef>

namespace parbuckle {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array<Row, 7> table{{{DType::f32, "f32", 4},
                                    {DType::f64, "f64", 8},
                                    {DType::bf16, "bf16", 2},
                                    {DType::f16, "f16", 2},
                                    {DType::i32, "i32", 4},
                                    {DType::i64, "i64", 8},
                                    {DType::u8, "u8", 1}}};

}  // namespace

std::int64_t size_of(DType dtype) {
  return table[static_cast<std::size_t>(dtype)].bytes;
}

std::string_view to_string(DType dtype) {
  return table[static_cast<std::size_t>(dtype)].name;
}

std::optional<DType> dtype_from_string(std::string_view name) {
  for (const Row& row : table) {
    if (row.name == name) {
      return row.dtype;
    }
  }
  return std::nullopt;
}

}  // namespace parbuckle
