#include "offload/storage/open_file.h"

#include <utility>

#include "offload/storage/uring_file.h"

namespace parbuckle {

Result<std::unique_ptr<BlockFile>> open_block_file(const std::filesystem::path& path,
                                                   const OpenFileOptions& options) {
  PositionedFileOptions positioned = options.positioned;
  if (options.ring && positioned.direct) {
    auto file = UringFile::open(path, options.uring);
    if (file.ok() || file.status().code() != Code::unsupported) {
      return file;
    }
    positioned.instead_of = file.status().message();
  }
  return PositionedFile::open(path, positioned);
}

}  // namespace parbuckle
