// A file that is read by position and leaves nothing behind in the page cache: a memory cgroup charges cached pages to
// the process, so every range is dropped as soon as it has been copied. Never mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "parbuckle/status.h"

namespace parbuckle {

class InputFile {
 public:
  /// Opens a regular file; anything else (folder, pipe, missing) is an error that names the path.
  static Result<InputFile> open(const std::string& path);
  /// Bytes in memory under a name, for tests and fuzzing; they must outlive the object.
  static InputFile in_memory(std::string name, std::span<const std::byte> bytes);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::int64_t size() const { return size_; }

  /// Fills `out` from `offset`. A range beyond the end, or a file that shrank meanwhile, is an error.
  [[nodiscard]] Status read(std::int64_t offset, std::span<std::byte> out) const;

  /// The whole file as text; refused when longer than `limit` bytes.
  [[nodiscard]] Result<std::string> read_text(std::int64_t limit) const;

 private:
  InputFile() = default;
  void drop_from_cache(std::int64_t offset, std::int64_t bytes) const;

  std::string name_;
  std::int64_t size_ = 0;
  int descriptor_ = -1;
  std::span<const std::byte> memory_;
};

}  // namespace parbuckle
