// Reading the header of a .safetensors file: an 8-byte length, a JSON object, the data. The file is a trust boundary:
// every field is checked before anything is allocated from it or read through it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "parbuckle/status.h"

#include "engine/checkpoint/input_file.h"
#include "engine/checkpoint/tensor_info.h"

namespace parbuckle {

/// Longest header that the format allows.
inline constexpr std::int64_t safetensors_header_limit = 100'000'000;

struct Safetensors {
  std::map<std::string, std::string> metadata;
  std::vector<TensorInfo> tensors;  // in the order of their data; every byte belongs to one tensor
  std::int64_t data_begin = 0;
};

/// The message names the file, the tensor or byte, what was found and what is allowed.
Result<Safetensors> read_safetensors(const InputFile& file);

/// Why a file that should hold weights begins like text: a git-lfs pointer, a web page, JSON. Empty: it does not.
/// `begin` is the first bytes of the file, 40 at most are looked at.
std::string text_instead_of_weights(std::string_view begin);

}  // namespace parbuckle
