// The engine that needs nothing but pread and pwrite: O_DIRECT, a team of threads for reads and one for writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "offload/storage/block_file.h"
#include "offload/storage/io_team.h"

namespace parbuckle {

struct PositionedFileOptions {
  bool direct = true;  // false: as where O_DIRECT is refused
  IoTeamOptions team;  // of each direction
};

class PositionedFile final : public BlockFile {
 public:
  /// Creates the file or opens the existing one. Where the file system refuses O_DIRECT: buffered, the page cache
  /// dropped behind every request, and warning() says so.
  static Result<std::unique_ptr<BlockFile>> open(const std::filesystem::path& path,
                                                 const PositionedFileOptions& options = {});
  PositionedFile(const PositionedFile&) = delete;
  PositionedFile& operator=(const PositionedFile&) = delete;
  PositionedFile(PositionedFile&&) = delete;
  PositionedFile& operator=(PositionedFile&&) = delete;
  ~PositionedFile() override;

  Status read(std::int64_t offset, std::span<std::byte> to) override;
  Status write(std::int64_t offset, std::span<const std::byte> from) override;
  Status preallocate(std::int64_t bytes) override;
  Status sync() override;
  [[nodiscard]] std::string_view engine() const override { return engine_; }
  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] const std::string& warning() const override { return warning_; }

 private:
  PositionedFile() = default;
  Status open_descriptor(bool direct);
  Status write_zeros(std::int64_t bytes);
  [[nodiscard]] Status check(std::int64_t offset, const void* data, std::size_t bytes) const;

  int descriptor_ = -1;
  std::string path_;
  std::string engine_;
  std::string warning_;
  std::unique_ptr<IoTeam> readers_;
  std::unique_ptr<IoTeam> writers_;
};

}  // namespace parbuckle
