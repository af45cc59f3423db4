// The engine of choice: O_DIRECT through io_uring.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "offload/storage/block_file.h"
#include "offload/storage/drive_file.h"
#include "offload/storage/io_ring.h"

namespace parbuckle {

class UringFile final : public BlockFile {
 public:
  /// unsupported, with the reason, where there is no io_uring or no O_DIRECT: another engine has to do it.
  static Result<std::unique_ptr<BlockFile>> open(const std::filesystem::path& path,
                                                 const IoRingOptions& options = {});

  Status read(std::int64_t offset, std::span<std::byte> to) override;
  Status write(std::int64_t offset, std::span<const std::byte> from) override;
  Status preallocate(std::int64_t bytes) override { return file_.preallocate(bytes, *this); }
  Status sync() override { return file_.sync(); }
  void register_memory(std::span<std::byte> memory) override;
  [[nodiscard]] std::string_view engine() const override { return engine_; }
  [[nodiscard]] const std::string& path() const override { return file_.path(); }
  [[nodiscard]] const std::string& warning() const override { return warning_; }

 private:
  explicit UringFile(DriveFile file) : file_(std::move(file)) {}

  DriveFile file_;  // outlives the ring
  std::string engine_;
  std::string warning_;
  std::unique_ptr<IoRing> ring_;
};

}  // namespace parbuckle
