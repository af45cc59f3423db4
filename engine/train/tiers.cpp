#include "engine/train/tiers.h"

#include <filesystem>
#include <utility>

namespace parbuckle {

Result<Tiers> Tiers::take(const Plan& plan,
                          const std::string& nvme_path,
                          std::vector<std::string>* warnings) {
  Tiers tiers;
  if (plan.nvme_pool_bytes > 0) {
    PARBUCKLE_ASSIGN(tiers.pool,
                     Pool::create({.folder = nvme_path, .bytes = plan.nvme_pool_bytes}));
    for (std::string& warning : tiers.pool->warnings()) {
      warnings->push_back(std::move(warning));
    }
  }
  PARBUCKLE_ASSIGN(Arena arena, Arena::create({.bytes = plan.host_arena_bytes, .lock = false}));
  tiers.arena.emplace(std::move(arena));
  return tiers;
}

}  // namespace parbuckle
