#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace parbuckle {

enum class DType { f32, f64, bf16, f16, i32, i64, u8 };

/// Bytes of one element.
std::int64_t size_of(DType dtype);
/// "f32", "bf16", ...
std::string_view to_string(DType dtype);
std::optional<DType> dtype_from_string(std::string_view name);

}  // namespace parbuckle
