#include "offload/plan/takeover.h"

#include <iterator>

namespace parbuckle {
namespace {

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

Release& Takeover::release(std::int32_t visit, std::size_t range) {
  return releases_[at(visit)][range];
}

const Ready& Takeover::ready(std::int32_t visit, std::size_t range) const {
  return ready_[at(visit)][range];
}

std::vector<Tenure> Takeover::walk() {
  std::vector<Tenure> tenures;
  for (std::size_t v = 0; v < visits_.size(); ++v) {
    const Visit& visit = visits_[v];
    for (std::size_t r = 0; r < visit.ranges().size() && !visit.resident; ++r) {
      tenures.push_back({static_cast<std::int32_t>(v), r, visit.held[r]});
    }
  }
  std::stable_sort(tenures.begin(), tenures.end(), [](const Tenure& a, const Tenure& b) {
    return a.tasks.first < b.tasks.first;
  });
  for (const Tenure& tenure : tenures) {
    ready_[at(tenure.visit)][tenure.range] = take_over(tenure);
  }
  return tenures;
}

Ready Takeover::take_over(const Tenure& tenure) {
  Ready ready;
  const std::int64_t begin = offset_[at(tenure.visit)];
  const std::int64_t end = begin + visits_[at(tenure.visit)].bytes;
  auto piece = holders_.lower_bound(begin);
  if (piece != holders_.begin() && std::prev(piece)->second.end > begin) {
    --piece;
  }
  while (piece != holders_.end() && piece->first < end) {
    const auto [offset, held] = *piece;
    const Release& release = releases_[at(held.visit)][held.range];
    std::int32_t& after = ready.after[static_cast<std::size_t>(release.lane)];
    after = std::max(after, release.transfer);
    ready.after_task = std::max(ready.after_task, release.task);
    piece = holders_.erase(piece);
    if (offset < begin) {
      holders_[offset] = {begin, held.visit, held.range};
    }
    if (held.end > end) {
      holders_[end] = held;
    }
  }
  holders_[begin] = {end, tenure.visit, tenure.range};
  return ready;
}

}  // namespace parbuckle
