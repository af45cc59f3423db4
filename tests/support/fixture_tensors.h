// Tensors of a small safetensors file as doubles, for tests that compare with reference values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace parbuckle {

/// F32, F64 and I64 tensors by name; empty where the file cannot be read or holds another type.
std::map<std::string, std::vector<double>> fixture_tensors(const std::filesystem::path& path);

}  // namespace parbuckle
