// The engine that needs nothing but pread and pwrite: O_DIRECT, a team of threads for reads and one for writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "offload/storage/block_file.h"
#include "offload/storage/drive_file.h"
#include "offload/storage/io_team.h"

namespace parbuckle {

struct PositionedFileOptions {
  bool direct = true;      // false: as where O_DIRECT is refused
  IoTeamOptions team;      // of each direction
  std::string instead_of;  // why a faster engine is not used: for warning()
};

class PositionedFile final : public BlockFile {
 public:
  /// Creates the file or opens the existing one. Where the file system refuses O_DIRECT: buffered, the page cache
  /// dropped behind every request, and warning() says so.
  static Result<std::unique_ptr<BlockFile>> open(const std::filesystem::path& path,
                                                 const PositionedFileOptions& options = {});

  Status read(std::int64_t offset, std::span<std::byte> to) override;
  Status write(std::int64_t offset, std::span<const std::byte> from) override;
  Status preallocate(std::int64_t bytes) override { return file_.preallocate(bytes, *this); }
  Status sync() override { return file_.sync(); }
  [[nodiscard]] std::string_view engine() const override { return engine_; }
  [[nodiscard]] const std::string& path() const override { return file_.path(); }
  [[nodiscard]] const std::string& warning() const override { return warning_; }

 private:
  explicit PositionedFile(DriveFile file) : file_(std::move(file)) {}

  DriveFile file_;  // outlives the teams
  std::string engine_;
  std::string warning_;
  std::unique_ptr<IoTeam> readers_;
  std::unique_ptr<IoTeam> writers_;
};

}  // namespace parbuckle
