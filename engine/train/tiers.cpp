#include "engine/train/tiers.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace parbuckle {

namespace {

std::int64_t most(std::span<const Plan* const> plans, std::int64_t Plan::*bytes) {
  std::int64_t largest = 0;
  for (const Plan* const plan : plans) {
    largest = std::max(largest, plan->*bytes);
  }
  return largest;
}

}  // namespace

Result<Tiers> Tiers::take(std::span<const Plan* const> plans,
                          Device& on,
                          const std::string& nvme_path,
                          std::vector<std::string>* warnings) {
  Tiers tiers;
  if (const std::int64_t bytes = most(plans, &Plan::nvme_pool_bytes); bytes > 0) {
    PARBUCKLE_ASSIGN(tiers.pool, Pool::create({.folder = nvme_path, .bytes = bytes}));
  }
  if (const std::int64_t bytes = most(plans, &Plan::device_arena_bytes); bytes > 0) {
    PARBUCKLE_ASSIGN(tiers.device, on.create_memory(bytes));
  }
  PARBUCKLE_ASSIGN(Arena arena,
                   Arena::create({.bytes = most(plans, &Plan::host_arena_bytes), .lock = false}));
  tiers.arena.emplace(std::move(arena));
  if (tiers.pool) {
    tiers.pool->register_memory(
        {tiers.arena->data(), static_cast<std::size_t>(tiers.arena->bytes())});
    for (std::string& warning : tiers.pool->warnings()) {
      warnings->push_back(std::move(warning));
    }
  }
  return tiers;
}

}  // namespace parbuckle
