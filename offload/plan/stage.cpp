#include "offload/plan/stage.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

class Stager {
 public:
  Stager(const Workload& workload,
         const Choice& choice,
         const std::vector<ChainTask>& chain,
         const UseTable& uses,
         const Schedule& device)
      : workload_(workload),
        choice_(choice),
        chain_(chain),
        uses_(uses),
        device_(device),
        tasks_(static_cast<std::int32_t>(chain.size())),
        position_(chain.size(), 0) {
    out_.fetch.resize(device.visits.size());
    out_.drain.resize(device.visits.size());
    out_.host.operands.resize(chain.size());
    out_.host.scratch.assign(chain.size(), -1);
  }

  Staging run() {
    for (const SpanId span : choice_.hosted) {
      add_home(span);
    }
    add_mirrors();
    add_host_tasks();
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
    for (const HostObject& object : objects_) {
      bind(object);
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

  // A span, or that of one micro-batch, and what the host's lane does with it.
  struct HostObject {
    SpanId span;
    std::int32_t micro_batch = -1;
    std::vector<UseAt> uses;
    bool whole = false;  // some task needs the span as one range
  };

  [[nodiscard]] const Block& block_of(BlockId id) const { return workload_.blocks[id.index()]; }
  [[nodiscard]] const Span& span_of(SpanId id) const { return workload_.spans[id.index()]; }
  [[nodiscard]] std::int64_t transfer_bytes(BlockId id) const {
    return round_up(block_bytes(block_of(id), workload_.shapes.back()), page_bytes);
  }

  void add_host_tasks() {
    std::int32_t position = 0;
    for (std::size_t t = 0; t < chain_.size(); ++t) {
      if (chain_[t].lane != LaneKind::host_compute) {
        continue;
      }
      position_[t] = position++;
      out_.host.operands[t].resize(chain_[t].uses.size());
      const std::int64_t scratch = workload_.families[chain_[t].family.index()].scratch_bytes;
      if (scratch > 0) {
        Visit visit;
        visit.place = WaitsIn::host;
        visit.bytes = round_up(scratch, page_bytes);
        visit.held[0] = {static_cast<std::int32_t>(t), static_cast<std::int32_t>(t)};
        out_.host.scratch[t] = add(std::move(visit));
      }
    }
    for (std::size_t s = 0; position > 0 && s < workload_.spans.size(); ++s) {
      const std::int32_t first = uses_.first_object[s];
      for (std::int32_t object = first; object < uses_.first_object[s + 1]; ++object) {
        collect(SpanId(s),
                workload_.spans[s].per_micro_batch ? object - first : -1,
                uses_.uses[static_cast<std::size_t>(object)]);
      }
    }
  }

  void collect(SpanId span, std::int32_t micro_batch, const std::vector<UseAt>& all) {
    HostObject object{span, micro_batch, {}, false};
    for (const UseAt& use : all) {
      if (use.lane == LaneKind::host_compute) {
        object.uses.push_back(use);
        object.whole = object.whole || use.block < 0;
      }
    }
    if (object.uses.empty()) {
      return;
    }
    if (object.whole) {
      whole_.insert({span, micro_batch});
    }
    if (waits_in_host(span)) {
      for (const UseAt& use : object.uses) {
        for (const BlockId id : used_blocks(span, use)) {
          waits_[key(id, micro_batch)].fetched.push_back(use.task);
        }
      }
    }
    objects_.push_back(std::move(object));
  }

  [[nodiscard]] std::vector<BlockId> used_blocks(SpanId span, const UseAt& use) const {
    const std::vector<BlockId>& blocks = span_of(span).blocks;
    return use.block < 0 ? blocks
                         : std::vector<BlockId>{blocks[static_cast<std::size_t>(use.block)]};
  }

  // Of a step, and kept in host memory between the lanes.
  [[nodiscard]] bool waits_in_host(SpanId span) const {
    return !block_of(span_of(span).blocks.front()).persistent && !is_mirrored(workload_, span) &&
           choice_.gradient != WaitsIn::nvme;
  }

  [[nodiscard]] bool is_whole(SpanId span, std::int32_t micro_batch) const {
    return whole_.contains({span, micro_batch});
  }

  // Blocks of a span that some task of the host's lane needs as one range wait as one.
  [[nodiscard]] Instance key(BlockId id, std::int32_t micro_batch) const {
    const SpanId span = block_of(id).span;
    return {is_whole(span, micro_batch) ? span_of(span).blocks.front() : id, micro_batch};
  }

  void bind(const HostObject& object) {
    const auto mirror = mirrors_.find({object.span, object.micro_batch});
    const auto home = homes_.find(object.span);
    if (mirror == mirrors_.end() && home == homes_.end() && !waits_in_host(object.span)) {
      bind_from_drive(object);
      return;
    }
    for (const UseAt& use : object.uses) {
      const BlockId first = used_blocks(object.span, use).front();
      bind(object,
           use,
           mirror != mirrors_.end() ? mirror->second
           : home != homes_.end()   ? home->second
                                    : waits_.at(key(first, object.micro_batch)).visit);
    }
  }

  void bind(const HostObject& object, const UseAt& use, std::int32_t visit) {
    const bool inside =
        use.block >= 0 && out_.host.visits[static_cast<std::size_t>(visit)].block < 0;
    const std::int64_t offset =
        inside ? block_of(used_blocks(object.span, use).front()).span_offset : 0;
    out_.host.operands[static_cast<std::size_t>(use.task)][static_cast<std::size_t>(use.use)] = {
        visit, offset};
  }

  // One visit for uses by consecutive tasks of the lane, of the whole span or of one block.
  void bind_from_drive(const HostObject& object) {
    std::map<std::int32_t, std::vector<UseAt>> by_block;
    for (const UseAt& use : object.uses) {
      by_block[object.whole ? -1 : use.block].push_back(use);
    }
    for (const auto& [block, uses] : by_block) {
      std::size_t first = 0;
      for (std::size_t i = 1; i <= uses.size(); ++i) {
        if (i == uses.size() || position_of(uses[i]) > position_of(uses[i - 1]) + 1) {
          add_own(object, {uses.data() + first, i - first}, block);
          first = i;
        }
      }
    }
  }

  [[nodiscard]] std::int32_t position_of(const UseAt& use) const {
    return position_[static_cast<std::size_t>(use.task)];
  }

  void add_own(const HostObject& object, std::span<const UseAt> uses, std::int32_t block) {
    Visit visit;
    visit.span = object.span;
    visit.block = block;
    visit.micro_batch = object.micro_batch;
    visit.role = block_of(span_of(object.span).blocks.front()).role;
    visit.place = WaitsIn::nvme;
    visit.held[0] = {uses.front().task, uses.back().task};
    const std::vector<BlockId>& blocks = span_of(object.span).blocks;
    visit.bytes = block < 0 ? round_up(span_of(object.span).bytes, page_bytes)
                            : transfer_bytes(blocks[static_cast<std::size_t>(block)]);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      move_own(visit, uses, b);
    }
    const std::int32_t id = add(std::move(visit));
    out_.own.push_back(id);
    for (const UseAt& use : uses) {
      bind(object, use, id);
    }
  }

  // What the drive brings and takes of one block.
  void move_own(Visit& visit, std::span<const UseAt> uses, std::size_t b) const {
    const BlockId id = span_of(visit.span).blocks[b];
    const std::int64_t offset = visit.block < 0 ? block_of(id).span_offset : 0;
    const UseAt* first = nullptr;
    std::int32_t changed = -1;
    for (const UseAt& use : uses) {
      if (use.block >= 0 && static_cast<std::size_t>(use.block) != b) {
        continue;
      }
      first = first == nullptr ? &use : first;
      changed = use.access != Access::read ? use.task : changed;
    }
    if (first != nullptr && first->access != Access::write) {
      visit.fetches.push_back({id, offset, transfer_bytes(id), first->task});
    }
    if (changed >= 0) {
      visit.drains.push_back({id, offset, transfer_bytes(id), changed});
    }
  }

  void collect_waits() {
    for (const Visit& visit : device_.visits) {
      if (visit.place != WaitsIn::host) {
        continue;
      }
      for (const Fetch& fetch : visit.fetches) {
        waits_[key(fetch.block, visit.micro_batch)].fetched.push_back(fetch.need);
      }
      for (const Drain& drain : visit.drains) {
        waits_[key(drain.block, visit.micro_batch)].drained.push_back(drain.after);
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
    if (visit.resident) {
      return {mirrors_.at({visit.span, visit.micro_batch}), drain.offset};
    }
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
    Waits& waits = waits_[key(id, visit.micro_batch)];
    const bool whole = is_whole(visit.span, visit.micro_batch);
    if (waits.visit < 0) {
      Visit made = range(visit, id, transfer_bytes(id));
      if (whole) {
        made.block = -1;
        made.bytes = round_up(span_of(visit.span).bytes, page_bytes);
      }
      hold(waits, made);
      waits.visit = add(std::move(made));
    }
    return {waits.visit, whole ? block.span_offset : 0};
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
        mirror.drains.clear();
        mirrors_[{visit.span, visit.micro_batch}] = add(std::move(mirror));
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
  const std::vector<ChainTask>& chain_;
  const UseTable& uses_;
  const Schedule& device_;
  std::int32_t tasks_;
  std::vector<std::int32_t> position_;  // per task: in the host's lane
  std::vector<HostObject> objects_;
  std::set<std::pair<SpanId, std::int32_t>> whole_;  // objects that wait as one range
  Staging out_;
  std::map<std::pair<SpanId, std::int32_t>, std::int32_t> mirrors_;
  std::map<SpanId, std::int32_t> homes_;
  std::map<Instance, Waits> waits_;
};

}  // namespace

Staging stage(const Workload& workload,
              const Choice& choice,
              const std::vector<ChainTask>& chain,
              const UseTable& uses,
              const Schedule& device) {
  return Stager(workload, choice, chain, uses, device).run();
}

}  // namespace parbuckle
