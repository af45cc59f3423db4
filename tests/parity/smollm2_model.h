// Where the tests find SmolLM2-135M-Instruct: $PARBUCKLE_SMOLLM2 or models/smollm2-135m (tools/dev/fetch_model smollm2-135m).
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace parbuckle {

inline std::string smollm2_path() {
  const char* const given = std::getenv("PARBUCKLE_SMOLLM2");
  return given != nullptr ? given : PARBUCKLE_SOURCE_DIR "/models/smollm2-135m";
}

}  // namespace parbuckle

// First line of a test that needs the model: says so and skips where it is absent.
#define PARBUCKLE_NEEDS_SMOLLM2()                                                \
  if (!std::filesystem::exists(::parbuckle::smollm2_path())) {                   \
    GTEST_SKIP() << ::parbuckle::smollm2_path()                                  \
                 << " is absent: run tools/dev/fetch_model smollm2-135m or set " \
                 << "PARBUCKLE_SMOLLM2 to a folder with the model";              \
  }
