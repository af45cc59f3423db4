// A file that one process at a time holds, with the name of its holder in it.
#pragma once

#include <filesystem>

#include "parbuckle/status.h"

namespace parbuckle {

/// Given back when the object or the process ends, however it ends.
class FileLock {
 public:
  /// Makes the file where it is missing. Fails at once where another process holds it: the message gives that process's id.
  static Result<FileLock> take(const std::filesystem::path& path);
  /// Whether nobody holds the file; one that does not exist is free.
  static bool is_free(const std::filesystem::path& path);

  FileLock() = default;
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace parbuckle
