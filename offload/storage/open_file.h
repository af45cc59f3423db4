// Which engine serves a file: the fastest that this kernel, process and file system allow.
#pragma once

#include <filesystem>
#include <memory>

#include "parbuckle/status.h"

#include "offload/storage/block_file.h"
#include "offload/storage/io_ring.h"
#include "offload/storage/positioned_file.h"

namespace parbuckle {

struct OpenFileOptions {
  bool ring = true;  // false: as where io_uring is missing
  IoRingOptions uring;
  PositionedFileOptions positioned;
};

/// io_uring; where that is refused (kernel.io_uring_disabled, seccomp, an old kernel) or the file system refuses O_DIRECT,
/// positioned I/O, and warning() says why in one line. Errors are those of opening the file.
Result<std::unique_ptr<BlockFile>> open_block_file(const std::filesystem::path& path,
                                                   const OpenFileOptions& options = {});

}  // namespace parbuckle
