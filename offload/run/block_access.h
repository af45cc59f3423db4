// Persistent blocks at their homes, byte by byte: how a model is loaded into its tiers and read back from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/ids.h"
#include "engine/base/workload.h"
#include "kernels/runtime/device.h"
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

  /// Any offset and size inside the block. Ranges on the drive that are whole aligned pages move directly, others
  /// through a buffer of 1 MiB that is taken at the first such call.
  Status read(BlockId block, std::int64_t offset, std::span<std::byte> to);
  Status write(BlockId block, std::int64_t offset, std::span<const std::byte> from);

 private:
  struct Window;
  struct Unmap {
    void operator()(std::byte* memory) const;
  };
  [[nodiscard]] Status check(BlockId block, std::int64_t offset, std::size_t bytes) const;
  Result<std::byte*> buffer();

  const Workload& workload_;
  Pool* pool_;
  Stream* stream_;
  std::vector<BlockPlace> places_;
  std::unique_ptr<std::byte, Unmap> buffer_;
};

}  // namespace parbuckle
