// Blocks that live in host memory, as versions in the store: memory saves reads, it does not make anything durable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/plan.h"
#include "engine/base/workload.h"
#include "offload/storage/pool.h"
#include "offload/tier/arena.h"

namespace parbuckle {

/// Every persistent block of a workload, for a store: whole pages, `slots` of each. Frozen weights have one.
std::vector<StoredBlock> stored_blocks(const Workload& workload, std::int32_t slots);

class DurableHomes {
 public:
  /// Finds the extents of all persistent blocks whose home is the host. All arguments must outlive it.
  static Result<DurableHomes> bind(const Plan& plan,
                                   const Workload& workload,
                                   Arena& arena,
                                   Pool& pool);

  /// Writes every block as a new version, between steps; frozen ones only the first time. Returns the bytes written.
  Result<std::int64_t> write();
  /// Fills every block with the version that the pool recovered.
  Status read();
  /// What write() writes from its second call on.
  [[nodiscard]] std::int64_t bytes() const;

 private:
  struct Place {
    ExtentId extent;
    std::span<std::byte> memory;  // whole pages
    bool frozen = false;
  };
  explicit DurableHomes(Pool& pool) : pool_(&pool) {}
  Pool* pool_;
  std::vector<Place> places_;
};

}  // namespace parbuckle
