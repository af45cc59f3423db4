#include "offload/plan/stage.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

class Stager {
 public:
  Stager(const Workload& workload, const Choice& choice, const Schedule& device, std::int32_t tasks)
      : workload_(workload), choice_(choice), device_(device), tasks_(tasks) {
    out_.fetch.resize(device.visits.size());
    out_.drain.resize(device.visits.size());
  }

  Staging run() {
    for (const SpanId span : choice_.hosted) {
      add_home(span);
    }
    add_mirrors();
    collect_waits();
    for (std::size_t v = 0; v < device_.visits.size(); ++v) {
      const Visit& visit = device_.visits[v];
      for (const Fetch& fetch : visit.fetches) {
        out_.fetch[v].push_back(fetch_from(visit, fetch));
      }
      for (const Drain& drain : visit.drains) {
        out_.drain[v].push_back(drain_to(visit, drain));
      }
    }
    return std::move(out_);
  }

 private:
  using Instance = std::pair<BlockId, std::int32_t>;  // block, micro-batch

  // When a block that waits in host memory is put there and taken from there.
  struct Waits {
    std::vector<std::int32_t> fetched;  // before these tasks
    std::vector<std::int32_t> drained;  // after these
    std::int32_t visit = -1;
  };

  [[nodiscard]] const Block& block_of(BlockId id) const { return workload_.blocks[id.index()]; }

  void collect_waits() {
    for (const Visit& visit : device_.visits) {
      if (visit.place != WaitsIn::host) {
        continue;
      }
      for (const Fetch& fetch : visit.fetches) {
        waits_[{fetch.block, visit.micro_batch}].fetched.push_back(fetch.need);
      }
      for (const Drain& drain : visit.drains) {
        waits_[{drain.block, visit.micro_batch}].drained.push_back(drain.after);
      }
    }
    for (auto& [what, waits] : waits_) {
      std::sort(waits.fetched.begin(), waits.fetched.end());
      std::sort(waits.drained.begin(), waits.drained.end());
    }
  }

  HostRange fetch_from(const Visit& visit, const Fetch& fetch) {
    if (visit.place == WaitsIn::host) {
      return living(visit, fetch.block);
    }
    Visit staging = range(visit, fetch.block, fetch.bytes);
    staging.held[0] = {fetch.need, fetch.need};
    staging.fetches.push_back({fetch.block, 0, fetch.bytes, fetch.need});
    return {add(std::move(staging)), 0};
  }

  HostRange drain_to(const Visit& visit, const Drain& drain) {
    if (visit.place == WaitsIn::host) {
      return living(visit, drain.block);
    }
    Visit staging = range(visit, drain.block, drain.bytes);
    staging.held[0] = {drain.after, drain.after};
    staging.drains.push_back({drain.block, 0, drain.bytes, drain.after});
    return {add(std::move(staging)), 0};
  }

  // The home of a persistent span, or the range in which a block of a step waits.
  HostRange living(const Visit& visit, BlockId id) {
    const Block& block = block_of(id);
    if (block.persistent) {
      return {homes_.at(visit.span), block.span_offset};
    }
    Waits& waits = waits_[{id, visit.micro_batch}];
    if (waits.visit < 0) {
      const std::int64_t bytes = round_up(block_bytes(block, workload_.shapes.back()), page_bytes);
      Visit made = range(visit, id, bytes);
      hold(waits, made);
      waits.visit = add(std::move(made));
    }
    return {waits.visit, 0};
  }

  void add_home(SpanId id) {
    const Span& span = workload_.spans[id.index()];
    Visit home;
    home.span = id;
    home.role = block_of(span.blocks.front()).role;
    home.place = WaitsIn::host;
    home.bytes = round_up(span.bytes, page_bytes);
    home.resident = true;
    home.held[0] = {0, tasks_ - 1};
    homes_[id] = add(std::move(home));
  }

  void add_mirrors() {
    for (const Visit& visit : device_.visits) {
      if (visit.resident && visit.span.valid() && is_mirrored(workload_, visit.span)) {
        Visit mirror = visit;
        mirror.place = WaitsIn::host;
        add(std::move(mirror));
      }
    }
  }

  // From the first drain to the last fetch. What is fetched before it is drained comes from the step before.
  void hold(const Waits& waits, Visit& visit) const {
    const bool crosses = !waits.fetched.empty() &&
                         (waits.drained.empty() || waits.fetched.front() <= waits.drained.front());
    if (!crosses) {
      const std::int32_t first = waits.drained.front();
      visit.held[0] = {first,
                       waits.fetched.empty() ? first : std::max(first, waits.fetched.back())};
      return;
    }
    visit.crosses = true;
    if (waits.drained.empty()) {
      visit.held[0] = {0, tasks_ - 1};
      return;
    }
    const auto later =
        std::upper_bound(waits.fetched.begin(), waits.fetched.end(), waits.drained.front());
    visit.held[0] = {0, *std::prev(later)};
    visit.held[1] = {waits.drained.front(), tasks_ - 1};
    visit.held_count = 2;
    if (visit.held[0].last >= visit.held[1].first) {
      visit.held[0] = {0, tasks_ - 1};
      visit.held_count = 1;
    }
  }

  [[nodiscard]] Visit range(const Visit& visit, BlockId id, std::int64_t bytes) const {
    const std::vector<BlockId>& blocks = workload_.spans[visit.span.index()].blocks;
    const auto position = std::find(blocks.begin(), blocks.end(), id) - blocks.begin();
    Visit made;
    made.span = visit.span;
    made.block = static_cast<std::int32_t>(position);
    made.micro_batch = visit.micro_batch;
    made.role = visit.role;
    made.place = WaitsIn::host;
    made.bytes = bytes;
    return made;
  }

  std::int32_t add(Visit visit) {
    out_.host.visits.push_back(std::move(visit));
    return static_cast<std::int32_t>(out_.host.visits.size()) - 1;
  }

  const Workload& workload_;
  const Choice& choice_;
  const Schedule& device_;
  std::int32_t tasks_;
  Staging out_;
  std::map<SpanId, std::int32_t> homes_;
  std::map<Instance, Waits> waits_;
};

}  // namespace

Staging stage(const Workload& workload,
              const Choice& choice,
              const Schedule& device,
              std::int32_t tasks) {
  return Stager(workload, choice, device, tasks).run();
}

}  // namespace parbuckle
