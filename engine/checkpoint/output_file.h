// A file written front to back that leaves neither dirty pages nor cache behind: every few MiB are flushed and dropped,
// because a memory cgroup charges them to the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "parbuckle/status.h"

namespace parbuckle {

class OutputFile {
 public:
  /// Creates the file (it must not exist) and reserves `bytes` on the disk, so that a full disk is found now.
  static Result<OutputFile> create(const std::string& path, std::int64_t bytes);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  /// An unfinished file is removed.
  ~OutputFile();

  [[nodiscard]] Status write(std::span<const std::byte> bytes);
  [[nodiscard]] Status write_text(std::string_view text);
  /// Durable on disk when this returns.
  [[nodiscard]] Status finish();

  [[nodiscard]] std::int64_t written() const { return written_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  OutputFile() = default;
  void flush_and_drop();

  std::string path_;
  int descriptor_ = -1;
  std::int64_t written_ = 0;
  std::int64_t flushed_ = 0;
};

/// Renames `from` to `to` and makes the change durable.
[[nodiscard]] Status rename_durably(const std::string& from, const std::string& to);

/// Makes the entries of a folder durable.
[[nodiscard]] Status sync_folder(const std::string& folder);

/// Refuses when `bytes` more do not fit the file system that holds `folder` (an existing one), or `largest`, the longest
/// single file, exceeds the process's file-size limit. The message states both figures.
[[nodiscard]] Status check_disk_space(const std::string& folder,
                                      std::int64_t bytes,
                                      std::int64_t largest);

}  // namespace parbuckle
