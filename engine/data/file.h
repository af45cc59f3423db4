// A file read or written with positioned calls. What was read or written is dropped from the page cache, so that a data
// set does not fill the memory a cgroup charges to us.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "parbuckle/status.h"

namespace parbuckle {

class File {
 public:
  /// Fails on what is not a regular file.
  static Result<File> open(const std::string& path);
  /// A file without a name in `directory`: it is gone when it is closed, whatever happens.
  static Result<File> temporary(const std::string& directory);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  [[nodiscard]] std::int64_t size() const { return size_; }

  /// Fills `to` from `offset`; fewer bytes only at the end of the file. Returns how many.
  Result<std::int64_t> read(std::int64_t offset, std::span<char> to) const;
  /// Appends at the end.
  Status append(std::span<const char> bytes);
  void drop_cached(std::int64_t offset, std::int64_t bytes) const;

 private:
  File(int descriptor, std::string path, std::int64_t size)
      : descriptor_(descriptor), path_(std::move(path)), size_(size) {}
  void close();

  int descriptor_ = -1;
  std::string path_;
  std::int64_t size_ = 0;
  std::int64_t written_out_ = 0;  // temporary files: up to here the cache has been emptied
};

/// The whole of a file of at most `limit` bytes.
Result<std::string> read_whole_file(const std::string& path, std::int64_t limit);

}  // namespace parbuckle
