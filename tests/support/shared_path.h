// Where the reference data of the tests lies: $PARBUCKLE_SHARED, or `shared` beside the source tree. A clone has none.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace parbuckle {

/// Path of a file or folder of the shared reference data, "fixtures/models/qwen2"; empty where the data is absent.
inline std::filesystem::path shared_file(const std::string& name) {
  const char* const given = std::getenv("PARBUCKLE_SHARED");
  const std::filesystem::path root =
      given != nullptr ? std::filesystem::path(given)
                       : std::filesystem::path(PARBUCKLE_SOURCE_DIR).parent_path() / "shared";
  std::error_code ignored;
  return std::filesystem::exists(root / name, ignored) ? root / name : std::filesystem::path();
}

}  // namespace parbuckle

// First line of a test that needs the reference data: says so and skips where it is absent.
#define PARBUCKLE_NEEDS_SHARED(name)                                                     \
  if (::parbuckle::shared_file(name).empty()) {                                          \
    GTEST_SKIP() << "reference data '" << (name) << "' is absent: set PARBUCKLE_SHARED"; \
  }
