// A file on a drive, opened for direct I/O where the file system allows it: what the engines share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "parbuckle/status.h"

#include "offload/storage/block_file.h"

namespace parbuckle {

class DriveFile {
 public:
  /// Creates the file or opens the existing one. Where the file system refuses O_DIRECT, or `direct` is false: buffered.
  static Result<DriveFile> open(const std::filesystem::path& path, bool direct);
  DriveFile(DriveFile&& other) noexcept;
  DriveFile& operator=(DriveFile&& other) noexcept;
  DriveFile(const DriveFile&) = delete;
  DriveFile& operator=(const DriveFile&) = delete;
  ~DriveFile();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool direct() const { return direct_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  /// internal_error unless the request is made of whole pages.
  [[nodiscard]] Status check(std::int64_t offset, const void* data, std::size_t bytes) const;
  /// Zeros are written through `engine` where the file system cannot reserve space.
  Status preallocate(std::int64_t bytes, BlockFile& engine) const;
  Status sync() const;

 private:
  DriveFile() = default;
  Status write_zeros(std::int64_t bytes, BlockFile& engine) const;

  int descriptor_ = -1;
  bool direct_ = false;
  std::string path_;
};

}  // namespace parbuckle
