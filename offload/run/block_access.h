// Persistent blocks at their homes, byte by byte: how a model is loaded into its tiers and read back from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/ids.h"
#include "engine/base/workload.h"
#include "kernels/runtime/device.h"
#include "offload/storage/page_memory.h"
#include "offload/storage/pool.h"

namespace parbuckle {

/// Where one block lives: an address in host or device memory, or an extent of the pool.
struct BlockPlace {
  std::byte* address = nullptr;
  bool on_device = false;  // the address is the device's
  ExtentId extent;
};

class BlockAccess {
 public:
  /// `places` are by BlockId; blocks without a home have neither address nor extent. Workload, pool and stream must outlive
  /// this; without blocks on a drive or a device, pool and stream may be null.
  BlockAccess(const Workload& workload, Pool* pool, Stream* stream, std::vector<BlockPlace> places);

  /// Any offset and size inside the block. Whole chunks of the drive move directly, parts of one through a buffer that holds
  /// one chunk: neighbouring parts read it once, and write it once, when another chunk is wanted or by flush().
  Status read(BlockId block, std::int64_t offset, std::span<std::byte> to);
  Status write(BlockId block, std::int64_t offset, std::span<const std::byte> from);
  /// Writes what is still in the buffer, and forgets it: others may change the block from now on.
  Status flush();

 private:
  /// What the buffer holds of the drive.
  struct Held {
    BlockId block;
    std::int64_t first = 0;  // where the chunk begins in the block
    std::int64_t bytes = 0;  // whole pages
    bool dirty = false;
  };
  [[nodiscard]] Status check(BlockId block, std::int64_t offset, std::size_t bytes) const;
  [[nodiscard]] std::int64_t whole_chunks(BlockId block,
                                          std::int64_t offset,
                                          std::span<const std::byte> memory) const;
  Result<std::span<std::byte>> hold(BlockId block, std::int64_t offset, bool allow_unwritten);

  const Workload& workload_;
  Pool* pool_;
  Stream* stream_;
  std::vector<BlockPlace> places_;
  PageMemory buffer_;  // one chunk, from the first use on
  Held held_;
};

}  // namespace parbuckle
