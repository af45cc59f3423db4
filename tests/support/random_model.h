// A llama folder with random weights of any size, for tests that no fixture's shape serves.
#pragma once

#include <cstdint>
#include <filesystem>

namespace parbuckle {

struct RandomModel {
  std::int64_t vocabulary = 128;
  std::int64_t width = 64;
  std::int64_t intermediate = 96;
  std::int64_t layers = 1;
  std::int64_t heads = 2;
  bool tied = true;
};

/// Writes config.json and model.safetensors (float32, normal with deviation 0.02; norms 1). Equal arguments, equal bytes.
void write_random_model(const std::filesystem::path& folder, const RandomModel& sizes);

}  // namespace parbuckle
