#include "offload/run/durable_homes.h"

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

bool is_frozen(const Block& block) {
  return block.role == Role::frozen_weight || block.role == Role::quantisation_scale;
}

}  // namespace

std::vector<StoredBlock> stored_blocks(const Workload& workload, std::int32_t slots) {
  std::vector<StoredBlock> stored;
  for (const Block& block : workload.blocks) {
    if (block.persistent) {
      stored.push_back({.name = block.name,
                        .bytes = round_up(block.bytes, page_bytes),
                        .slots = is_frozen(block) ? 1 : slots,
                        .starts_zero = block.starts_zero});
    }
  }
  return stored;
}

Result<DurableHomes> DurableHomes::bind(const Plan& plan,
                                        const Workload& workload,
                                        Arena& arena,
                                        Pool& pool) {
  DurableHomes homes(pool);
  for (const Home& home : plan.homes) {
    if (home.tier != Tier::host) {
      continue;
    }
    const Block& block = workload.blocks[home.block.index()];
    Place place{.extent = {}, .memory = {}, .frozen = is_frozen(block)};
    PARBUCKLE_ASSIGN(place.extent, pool.extent(block.name, block.bytes, block.starts_zero));
    const std::int64_t at = plan.allocations[home.allocation.index()].offset + home.offset;
    place.memory = {arena.data() + at, static_cast<std::size_t>(round_up(block.bytes, page_bytes))};
    homes.places_.push_back(place);
  }
  return homes;
}

Result<std::int64_t> DurableHomes::write() {
  std::int64_t written = 0;
  for (const Place& place : places_) {
    if (place.frozen && !pool_->versions().empty()) {
      continue;
    }
    PARBUCKLE_TRY(pool_->write(place.extent, 0, place.memory));
    written += static_cast<std::int64_t>(place.memory.size());
  }
  return written;
}

Status DurableHomes::read() {
  for (const Place& place : places_) {
    PARBUCKLE_ASSIGN([[maybe_unused]] const std::int64_t real,
                     pool_->read(place.extent, 0, place.memory));
  }
  return {};
}

std::int64_t DurableHomes::bytes() const {
  std::int64_t sum = 0;
  for (const Place& place : places_) {
    sum += place.frozen ? 0 : static_cast<std::int64_t>(place.memory.size());
  }
  return sum;
}

}  // namespace parbuckle
