#include "engine/checkpoint/storage_type.h"

#include <array>
#include <bit>
#include <cstring>

#include "engine/base/check.h"
#include "engine/checkpoint/float_formats.h"

namespace parbuckle {
namespace {

constexpr std::int64_t quant_block = 32;
constexpr std::uint32_t not_in_gguf = 0xFFFFFFFF;

using Decode = void (*)(const std::byte* raw, std::int64_t blocks, float* out);

std::uint16_t load16(const std::byte* at) {
  std::uint16_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}
float load_half(const std::byte* at) {
  return half_to_float(load16(at));
}
float low_nibble(std::byte value) {
  return static_cast<float>(std::to_integer<int>(value & std::byte{15}));
}
float high_nibble(std::byte value) {
  return static_cast<float>(std::to_integer<int>(value >> 4));
}

void decode_f32(const std::byte* raw, std::int64_t blocks, float* out) {
  std::memcpy(out, raw, static_cast<std::size_t>(blocks) * sizeof(float));
}
void decode_f16(const std::byte* raw, std::int64_t blocks, float* out) {
  for (std::int64_t i = 0; i < blocks; ++i) {
    out[i] = half_to_float(load16(raw + 2 * i));
  }
}
void decode_bf16(const std::byte* raw, std::int64_t blocks, float* out) {
  for (std::int64_t i = 0; i < blocks; ++i) {
    out[i] = bfloat16_to_float(load16(raw + 2 * i));
  }
}

// A 4-bit block: half d [, half m], 16 bytes; byte j holds element j below and element j + 16 above.
void decode_q4_0(const std::byte* raw, std::int64_t blocks, float* out) {
  for (std::int64_t b = 0; b < blocks; ++b, raw += 18, out += quant_block) {
    const float d = load_half(raw);
    for (int j = 0; j < 16; ++j) {
      out[j] = d * (low_nibble(raw[2 + j]) - 8.0F);
      out[j + 16] = d * (high_nibble(raw[2 + j]) - 8.0F);
    }
  }
}
void decode_q4_1(const std::byte* raw, std::int64_t blocks, float* out) {
  for (std::int64_t b = 0; b < blocks; ++b, raw += 20, out += quant_block) {
    const float d = load_half(raw);
    const float m = load_half(raw + 2);
    for (int j = 0; j < 16; ++j) {
      out[j] = d * low_nibble(raw[4 + j]) + m;
      out[j + 16] = d * high_nibble(raw[4 + j]) + m;
    }
  }
}

// A 5-bit block: as above with 32 fifth bits between scale and nibbles, bit e for element e.
float fifth_bit(std::uint32_t bits, int element) {
  return ((bits >> static_cast<unsigned>(element)) & 1U) != 0 ? 16.0F : 0.0F;
}
void decode_q5_0(const std::byte* raw, std::int64_t blocks, float* out) {
  for (std::int64_t b = 0; b < blocks; ++b, raw += 22, out += quant_block) {
    const float d = load_half(raw);
    std::uint32_t bits = 0;
    std::memcpy(&bits, raw + 2, sizeof bits);
    for (int j = 0; j < 16; ++j) {
      out[j] = d * (low_nibble(raw[6 + j]) + fifth_bit(bits, j) - 16.0F);
      out[j + 16] = d * (high_nibble(raw[6 + j]) + fifth_bit(bits, j + 16) - 16.0F);
    }
  }
}
void decode_q5_1(const std::byte* raw, std::int64_t blocks, float* out) {
  for (std::int64_t b = 0; b < blocks; ++b, raw += 24, out += quant_block) {
    const float d = load_half(raw);
    const float m = load_half(raw + 2);
    std::uint32_t bits = 0;
    std::memcpy(&bits, raw + 4, sizeof bits);
    for (int j = 0; j < 16; ++j) {
      out[j] = d * (low_nibble(raw[8 + j]) + fifth_bit(bits, j)) + m;
      out[j + 16] = d * (high_nibble(raw[8 + j]) + fifth_bit(bits, j + 16)) + m;
    }
  }
}
void decode_q8_0(const std::byte* raw, std::int64_t blocks, float* out) {
  for (std::int64_t b = 0; b < blocks; ++b, raw += 34, out += quant_block) {
    const float d = load_half(raw);
    for (int j = 0; j < quant_block; ++j) {
      out[j] = d * static_cast<float>(std::to_integer<std::int8_t>(raw[2 + j]));
    }
  }
}

struct Format {
  std::string_view name;
  std::int64_t elements;
  std::int64_t bytes;
  std::uint32_t gguf_id;
  bool in_safetensors;
  Decode decode;
};

// In the order of StorageType.
constexpr std::array<Format, 46> formats = {{
    {"F64", 1, 8, 28, true, nullptr},
    {"F32", 1, 4, 0, true, decode_f32},
    {"F16", 1, 2, 1, true, decode_f16},
    {"BF16", 1, 2, 30, true, decode_bf16},
    {"I64", 1, 8, 27, true, nullptr},
    {"I32", 1, 4, 26, true, nullptr},
    {"I16", 1, 2, 25, true, nullptr},
    {"I8", 1, 1, 24, true, nullptr},
    {"U64", 1, 8, not_in_gguf, true, nullptr},
    {"U32", 1, 4, not_in_gguf, true, nullptr},
    {"U16", 1, 2, not_in_gguf, true, nullptr},
    {"U8", 1, 1, not_in_gguf, true, nullptr},
    {"BOOL", 1, 1, not_in_gguf, true, nullptr},
    {"C64", 1, 8, not_in_gguf, true, nullptr},
    {"F8_E5M2", 1, 1, not_in_gguf, true, nullptr},
    {"F8_E4M3", 1, 1, not_in_gguf, true, nullptr},
    {"F8_E8M0", 1, 1, not_in_gguf, true, nullptr},
    {"F8_E5M2FNUZ", 1, 1, not_in_gguf, true, nullptr},
    {"F8_E4M3FNUZ", 1, 1, not_in_gguf, true, nullptr},
    {"F6_E2M3", 4, 3, not_in_gguf, true, nullptr},
    {"F6_E3M2", 4, 3, not_in_gguf, true, nullptr},
    {"F4", 2, 1, not_in_gguf, true, nullptr},
    {"Q4_0", 32, 18, 2, false, decode_q4_0},
    {"Q4_1", 32, 20, 3, false, decode_q4_1},
    {"Q5_0", 32, 22, 6, false, decode_q5_0},
    {"Q5_1", 32, 24, 7, false, decode_q5_1},
    {"Q8_0", 32, 34, 8, false, decode_q8_0},
    {"Q8_1", 32, 36, 9, false, nullptr},
    {"Q2_K", 256, 84, 10, false, nullptr},
    {"Q3_K", 256, 110, 11, false, nullptr},
    {"Q4_K", 256, 144, 12, false, nullptr},
    {"Q5_K", 256, 176, 13, false, nullptr},
    {"Q6_K", 256, 210, 14, false, nullptr},
    {"Q8_K", 256, 292, 15, false, nullptr},
    {"IQ1_S", 256, 50, 19, false, nullptr},
    {"IQ1_M", 256, 56, 29, false, nullptr},
    {"IQ2_XXS", 256, 66, 16, false, nullptr},
    {"IQ2_XS", 256, 74, 17, false, nullptr},
    {"IQ2_S", 256, 82, 22, false, nullptr},
    {"IQ3_XXS", 256, 98, 18, false, nullptr},
    {"IQ3_S", 256, 110, 21, false, nullptr},
    {"IQ4_NL", 32, 18, 20, false, nullptr},
    {"IQ4_XS", 256, 136, 23, false, nullptr},
    {"TQ1_0", 256, 54, 34, false, nullptr},
    {"TQ2_0", 256, 66, 35, false, nullptr},
    {"MXFP4", 32, 17, 39, false, nullptr},
}};
static_assert(formats.size() == static_cast<std::size_t>(StorageType::mxfp4) + 1);
static_assert(std::endian::native == std::endian::little, "weight files are little-endian");

const Format& format_of(StorageType type) {
  return formats[static_cast<std::size_t>(type)];
}

}  // namespace

std::string_view to_string(StorageType type) {
  return format_of(type).name;
}

std::int64_t block_elements(StorageType type) {
  return format_of(type).elements;
}

std::int64_t block_bytes(StorageType type) {
  return format_of(type).bytes;
}

std::optional<StorageType> storage_type_from_safetensors(std::string_view name) {
  for (std::size_t i = 0; i < formats.size(); ++i) {
    if (formats[i].in_safetensors && formats[i].name == name) {
      return static_cast<StorageType>(i);
    }
  }
  return std::nullopt;
}

std::optional<StorageType> storage_type_from_gguf(std::uint32_t id) {
  for (std::size_t i = 0; i < formats.size(); ++i) {
    if (formats[i].gguf_id == id && id != not_in_gguf) {
      return static_cast<StorageType>(i);
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> stored_bytes(StorageType type, std::int64_t elements) {
  const Format& format = format_of(type);
  std::int64_t bytes = 0;
  if (elements % format.elements != 0 ||
      __builtin_mul_overflow(elements / format.elements, format.bytes, &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

bool is_readable(StorageType type) {
  return format_of(type).decode != nullptr;
}

void to_floats(StorageType type, const std::byte* raw, std::int64_t elements, float* out) {
  const Format& format = format_of(type);
  PARBUCKLE_CHECK(format.decode != nullptr && elements % format.elements == 0,
                  "conversion of whole blocks of a readable type");
  if (elements > 0) {  // an empty tensor has null pointers
    format.decode(raw, elements / format.elements, out);
  }
}

void from_floats(StorageType type, const float* values, std::int64_t elements, std::byte* out) {
  if (elements == 0) {
    return;
  }
  if (type == StorageType::f32) {
    std::memcpy(out, values, static_cast<std::size_t>(elements) * sizeof(float));
    return;
  }
  PARBUCKLE_CHECK(type == StorageType::bf16 || type == StorageType::f16,
                  "weights are written as F32, BF16 or F16");
  const auto round = type == StorageType::bf16 ? float_to_bfloat16 : float_to_half;
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::uint16_t rounded = round(values[i]);
    std::memcpy(out + 2 * i, &rounded, sizeof rounded);
  }
}

}  // namespace parbuckle
