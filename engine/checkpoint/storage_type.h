// How numbers lie in model files: the types of safetensors and GGUF, their sizes, and exact conversion to float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "parbuckle/status.h"

namespace parbuckle {

enum class StorageType {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  c64,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e5m2fnuz,
  f8_e4m3fnuz,
  f6_e2m3,
  f6_e3m2,
  f4,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q8_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  q8_k,
  iq1_s,
  iq1_m,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq3_xxs,
  iq3_s,
  iq4_nl,
  iq4_xs,
  tq1_0,
  tq2_0,
  mxfp4,
};

/// "F32", "Q4_1": as the formats spell it.
std::string_view to_string(StorageType type);

/// Elements are stored in blocks of this many elements and bytes (1 and the element's size for plain numbers).
std::int64_t block_elements(StorageType type);
std::int64_t block_bytes(StorageType type);

std::optional<StorageType> storage_type_from_safetensors(std::string_view name);
std::optional<StorageType> storage_type_from_gguf(std::uint32_t id);

/// Bytes of so many elements; nothing where they are no whole blocks or do not fit 64 bits.
std::optional<std::int64_t> stored_bytes(StorageType type, std::int64_t elements);

/// Whether to_floats can convert it.
bool is_readable(StorageType type);

/// Converts whole blocks. Exact: scale x quant [+ minimum], each operation rounded to float once.
/// `raw` needs no alignment. REQUIRES: is_readable(type), elements a multiple of block_elements(type).
void to_floats(StorageType type, const std::byte* raw, std::int64_t elements, float* out);

/// Rounds to nearest, ties to even; NaN stays NaN. REQUIRES: type is f32, bf16 or f16. `out` needs no alignment.
void from_floats(StorageType type, const float* values, std::int64_t elements, std::byte* out);

}  // namespace parbuckle
