#include "offload/storage/uring_file.h"

#include "parbuckle/units.h"

namespace parbuckle {

Result<std::unique_ptr<BlockFile>> UringFile::open(const std::filesystem::path& path,
                                                   const IoRingOptions& options) {
  PARBUCKLE_ASSIGN(DriveFile opened, DriveFile::open(path, true));
  if (!opened.direct()) {
    return unsupported("the file system refuses O_DIRECT");
  }
  std::unique_ptr<UringFile> file(new UringFile(std::move(opened)));  // private constructor
  PARBUCKLE_ASSIGN(file->ring_, IoRing::create(file->path(), file->file_.descriptor(), options));
  file->engine_ = "io_uring (O_DIRECT, 2 x " + std::to_string(options.requests) + " requests of " +
                  format_size(options.request_bytes) + ")";
  return std::unique_ptr<BlockFile>(std::move(file));
}

void UringFile::register_memory(std::span<std::byte> memory) {
  const Status refused = ring_->register_memory(memory);
  if (!refused.ok()) {
    warning_ =
        path() + ": " + refused.message() + "; the kernel maps the pages of each request (slower)";
  }
}

Status UringFile::read(std::int64_t offset, std::span<std::byte> to) {
  PARBUCKLE_TRY(file_.check(offset, to.data(), to.size()));
  return ring_->move({.direction = IoDirection::read,
                      .data = to.data(),
                      .offset = offset,
                      .bytes = static_cast<std::int64_t>(to.size())});
}

Status UringFile::write(std::int64_t offset, std::span<const std::byte> from) {
  PARBUCKLE_TRY(file_.check(offset, from.data(), from.size()));
  return ring_->move({.direction = IoDirection::write,
                      .data = const_cast<std::byte*>(from.data()),  // NOLINT: only read from
                      .offset = offset,
                      .bytes = static_cast<std::int64_t>(from.size())});
}

}  // namespace parbuckle
