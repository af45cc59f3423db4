#include "offload/plan/assemble.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "parbuckle/units.h"

#include "offload/plan/takeover.h"

namespace parbuckle {
namespace {

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

// A fetch or a drain of a visit of compute memory, or of a visit that the host's lane has of its own.
struct Move {
  std::int32_t visit = 0;
  std::size_t index = 0;  // among the visit's fetches or drains
  std::int32_t task = 0;  // needs it, or changed the block last
  bool fetch = true;
  bool own = false;  // of the host's lane: `visit` is one of host memory
  TransferId first;  // its transfers: one, or two through the host
  TransferId last;

  // Before the task that needs it, after the one that changed it.
  [[nodiscard]] std::int32_t stamp() const { return 2 * task + (fetch ? 0 : 1); }
};

class Assembly {
 public:
  Assembly(const Workload& workload,
           const Choice& choice,
           const std::vector<ChainTask>& chain,
           const Schedule& schedule,
           const Placement& placement,
           const HostSide* host)
      : workload_(workload),
        choice_(choice),
        chain_(chain),
        schedule_(schedule),
        placement_(placement),
        host_(host),
        compute_memory_(schedule.visits, placement.offset) {
    if (host != nullptr) {
      host_memory_.emplace(host->staging.host.visits, host->placement.offset);
    }
  }

  Plan run() {
    plan_.workload = workload_.name;
    plan_.phase = workload_.phase;
    plan_.choice = choice_;
    allocations();
    tasks();
    order_moves();
    make_transfers();
    release_memory();
    order_compute_memory();
    order_host_memory();
    fetch_on_demand();
    order_contents();
    tasks_wait_for_fetches();
    homes();
    count_bytes();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] bool staged() const { return host_ != nullptr; }
  [[nodiscard]] const std::vector<Visit>& host_visits() const { return host_->staging.host.visits; }
  [[nodiscard]] AllocationId host_allocation(std::int32_t visit) const {
    return AllocationId(schedule_.visits.size() + at(visit));
  }

  void allocations() {
    const Tier tier = staged() ? Tier::device : Tier::host;
    add_allocations(schedule_.visits, placement_, tier);
    (staged() ? plan_.device_arena_bytes : plan_.host_arena_bytes) = placement_.arena_bytes;
    if (staged()) {
      add_allocations(host_visits(), host_->placement, Tier::host);
      plan_.host_arena_bytes = host_->placement.arena_bytes;
    }
  }

  void add_allocations(const std::vector<Visit>& visits, const Placement& placement, Tier tier) {
    for (std::size_t v = 0; v < visits.size(); ++v) {
      const Visit& visit = visits[v];
      Allocation allocation;
      allocation.what = name_of(visit);
      allocation.role = visit.role;
      allocation.span = visit.span;
      allocation.block = visit.block;
      allocation.micro_batch = visit.micro_batch;
      allocation.tier = tier;
      allocation.offset = placement.offset[v];
      allocation.bytes = visit.bytes;
      allocation.resident = visit.resident || visit.crosses;
      plan_.allocations.push_back(std::move(allocation));
    }
  }

  [[nodiscard]] std::string name_of(const Visit& visit) const {
    if (!visit.span.valid()) {
      return "scratch";
    }
    const Span& span = workload_.spans[visit.span.index()];
    return visit.block < 0 ? span.name
                           : workload_.blocks[span.blocks[at(visit.block)].index()].name;
  }

  // Updates of the host's lane that apply this step's gradients come after all that the device did before them in the chain:
  // the norm is known then, and whether the step counts. Those of the step before wait for bytes alone.
  void tasks() {
    bool pending = true;
    std::array<std::int32_t, lane_kind_count> last{};
    last.fill(-1);
    for (std::size_t i = 0; i < chain_.size(); ++i) {
      const ChainTask& from = chain_[i];
      pending = pending && from.kind != TaskKind::backward;
      previous_.push_back(last[static_cast<std::size_t>(from.lane)]);
      Task task;
      task.kind = from.kind;
      task.lane = from.lane;
      if (on_host(i) && !pending) {
        task.after_task = last[static_cast<std::size_t>(LaneKind::compute)];
      }
      last[static_cast<std::size_t>(from.lane)] = static_cast<std::int32_t>(i);
      task.family = from.family;
      task.unit = from.unit;
      task.micro_batch = from.micro_batch;
      for (std::size_t u = 0; u < from.uses.size(); ++u) {
        const VisitOperand& operand = side(i).operands[i][u];
        task.operands.push_back({on_host(i)
                                     ? host_allocation(operand.visit)
                                     : AllocationId(static_cast<std::int64_t>(operand.visit)),
                                 operand.offset,
                                 from.uses[u].access});
      }
      const std::int32_t scratch = side(i).scratch[i];
      if (scratch >= 0) {
        task.scratch_offset = (on_host(i) ? host_->placement : placement_).offset[at(scratch)];
        task.scratch_bytes = workload_.families[from.family.index()].scratch_bytes;
      }
      plan_.tasks.push_back(std::move(task));
    }
  }

  // One order for all lanes: fetches before the tasks that need them, drains after the tasks they belong to.
  void order_moves() {
    for (std::size_t v = 0; v < schedule_.visits.size(); ++v) {
      const Visit& visit = schedule_.visits[v];
      const auto id = static_cast<std::int32_t>(v);
      for (std::size_t i = 0; i < visit.fetches.size(); ++i) {
        moves_.push_back({id, i, visit.fetches[i].need, true, false, {}, {}});
      }
      for (std::size_t i = 0; i < visit.drains.size(); ++i) {
        moves_.push_back({id, i, visit.drains[i].after, false, false, {}, {}});
      }
    }
    for (std::size_t o = 0; staged() && o < host_->staging.own.size(); ++o) {
      const std::int32_t id = host_->staging.own[o];
      const Visit& visit = host_visits()[at(id)];
      for (std::size_t i = 0; i < visit.fetches.size(); ++i) {
        moves_.push_back({id, i, visit.fetches[i].need, true, true, {}, {}});
      }
      for (std::size_t i = 0; i < visit.drains.size(); ++i) {
        moves_.push_back({id, i, visit.drains[i].after, false, true, {}, {}});
      }
    }
    std::stable_sort(moves_.begin(), moves_.end(), [](const Move& a, const Move& b) {
      return a.stamp() < b.stamp();
    });
  }

  void make_transfers() {
    for (Move& move : moves_) {
      const Visit& visit = visit_of(move);
      const HostRange* const range = host_range(move);
      const bool through_drive = range == nullptr || is_staging(*range);
      move.first = TransferId(plan_.transfers.size());
      if (move.fetch) {
        const Fetch& fetch = visit.fetches[move.index];
        if (through_drive) {
          push(LaneKind::nvme_read, fetch.block, fetch.offset, fetch.bytes, move);
        }
        if (range != nullptr) {
          push(LaneKind::h2d, fetch.block, fetch.offset, fetch.bytes, move);
        }
      } else {
        const Drain& drain = visit.drains[move.index];
        if (range != nullptr) {
          push(LaneKind::d2h, drain.block, drain.offset, drain.bytes, move);
        }
        if (through_drive) {
          push(LaneKind::nvme_write, drain.block, drain.offset, drain.bytes, move);
        }
        Transfer& start = plan_.transfers[move.first.index()];
        (move.own ? start.after_host_task : start.after_task) = drain.after;
      }
      move.last = TransferId(plan_.transfers.size() - 1);
      if (move.first != move.last) {
        add_wait(plan_.transfers[move.last.index()].after_transfers, move.first);
      }
    }
  }

  void push(
      LaneKind lane, BlockId block, std::int64_t offset, std::int64_t bytes, const Move& move) {
    Transfer transfer;
    transfer.lane = lane;
    transfer.block = block;
    transfer.micro_batch = visit_of(move).micro_batch;
    transfer.allocation = move.own ? host_allocation(move.visit)
                                   : AllocationId(static_cast<std::int64_t>(move.visit));
    transfer.offset = offset;
    transfer.bytes = bytes;
    if (const HostRange* const range = host_range(move)) {
      if (lane == LaneKind::h2d || lane == LaneKind::d2h) {
        transfer.host = host_allocation(range->visit);
        transfer.host_offset = range->offset;
      } else {
        transfer.allocation = host_allocation(range->visit);
        transfer.offset = range->offset;
      }
    }
    plan_.transfers.push_back(std::move(transfer));
  }

  [[nodiscard]] bool on_host(std::size_t task) const {
    return chain_[task].lane == LaneKind::host_compute;
  }
  [[nodiscard]] const Schedule& side(std::size_t task) const {
    return on_host(task) ? host_->staging.host : schedule_;
  }
  [[nodiscard]] const Visit& visit_of(const Move& move) const {
    return (move.own ? host_visits() : schedule_.visits)[at(move.visit)];
  }

  // Null where nothing passes between device and host: the host computes, or it is the host's lane that needs it.
  [[nodiscard]] const HostRange* host_range(const Move& move) const {
    if (!staged() || move.own) {
      return nullptr;
    }
    const Staging& staging = host_->staging;
    return &(move.fetch ? staging.fetch : staging.drain)[at(move.visit)][move.index];
  }

  [[nodiscard]] bool is_staging(const HostRange& range) const {
    const Visit& visit = host_visits()[at(range.visit)];
    return !visit.fetches.empty() || !visit.drains.empty();
  }

  // Compute memory is free when its last task has ended and its content has left it. Host memory is free when what was to
  // come from it has come to the device, or what passed through it is on the drive.
  void release_memory() {
    for (std::size_t v = 0; v < schedule_.visits.size(); ++v) {
      const Visit& visit = schedule_.visits[v];
      for (std::size_t r = 0; r < visit.ranges().size(); ++r) {
        compute_memory_.release(static_cast<std::int32_t>(v), r).task = visit.held[r].last;
      }
    }
    for (std::size_t t = 0; t < chain_.size(); ++t) {
      release_host_memory_after(t);
    }
    for (const Move& move : moves_) {
      if (!move.fetch) {
        note((move.own ? *host_memory_ : compute_memory_).release(move.visit, 0), move.first);
      }
      const HostRange* const range = host_range(move);
      if (range == nullptr) {
        continue;
      }
      if (move.fetch || is_staging(*range)) {
        note(host_memory_->release(range->visit, range_at(*range, move.task)), move.last);
      }
    }
  }

  void release_host_memory_after(std::size_t task) {
    if (!on_host(task)) {
      return;
    }
    const auto now = static_cast<std::int32_t>(task);
    const auto hold = [&](std::int32_t visit) {
      Release& release = host_memory_->release(visit, range_at({visit, 0}, now));
      release.task = std::max(release.task, now);
    };
    for (const VisitOperand& operand : side(task).operands[task]) {
      hold(operand.visit);
    }
    if (side(task).scratch[task] >= 0) {
      hold(side(task).scratch[task]);
    }
  }

  void note(Release& release, TransferId transfer) const {
    release.lane = plan_.transfers[transfer.index()].lane;
    release.transfer = std::max(release.transfer, transfer.value);
  }

  // Which of a host visit's ranges covers this task.
  [[nodiscard]] std::size_t range_at(const HostRange& range, std::int32_t task) const {
    const Visit& visit = host_visits()[at(range.visit)];
    return visit.held_count == 2 && task >= visit.held[1].first ? 1 : 0;
  }

  void order_compute_memory() {
    for (const Tenure& tenure : compute_memory_.walk()) {
      const Ready& ready = compute_memory_.ready(tenure.visit, tenure.range);
      add_waits(plan_.tasks[at(tenure.tasks.first)].waits, ready);
    }
    for (const Move& move : moves_) {
      if (!move.fetch || move.own) {
        continue;
      }
      const Ready& ready = compute_memory_.ready(move.visit, 0);
      Transfer& arrival = plan_.transfers[move.last.index()];
      arrival.after_task = std::max(arrival.after_task, ready.after_task);
      add_waits(arrival.after_transfers, ready);
    }
  }

  void fetch_on_demand() {
    for (const Move& move : moves_) {
      if (move.fetch && choice_.prefetch == 0) {
        Transfer& start = plan_.transfers[move.first.index()];
        std::int32_t& after = move.own ? start.after_host_task : start.after_task;
        after = std::max(after, previous_[at(move.task)]);
      }
    }
  }

  void order_host_memory() {
    if (!staged()) {
      return;
    }
    for (const Tenure& tenure : host_memory_->walk()) {
      if (on_host(static_cast<std::size_t>(tenure.tasks.first))) {
        const Ready& ready = host_memory_->ready(tenure.visit, tenure.range);
        add_waits(plan_.tasks[at(tenure.tasks.first)].waits, ready);
      }
    }
    for (const Move& move : moves_) {
      const HostRange range = move.own ? HostRange{move.visit, 0} : *host_range(move);
      if (move.own ? move.fetch : !move.fetch || is_staging(range)) {
        const Ready& ready = host_memory_->ready(range.visit, range_at(range, move.task));
        Transfer& start = plan_.transfers[move.first.index()];
        start.after_host_task = std::max(start.after_host_task, ready.after_task);
        add_waits(start.after_transfers, ready);
      }
    }
  }

  void add_waits(std::vector<TransferId>& waits, const Ready& ready) const {
    for (const std::int32_t transfer : ready.after) {
      if (transfer >= 0) {
        add_wait(waits, TransferId(static_cast<std::int64_t>(transfer)));
      }
    }
  }

  // Of one lane only the last transfer needs to be named.
  void add_wait(std::vector<TransferId>& waits, TransferId transfer) const {
    const LaneKind lane = plan_.transfers[transfer.index()].lane;
    for (TransferId& wait : waits) {
      if (plan_.transfers[wait.index()].lane == lane) {
        wait = std::max(wait, transfer);
        return;
      }
    }
    waits.push_back(transfer);
  }

  // A block is fetched after the drain that saved its newest bytes, or the task of the host's lane that changed it where it
  // lives; and it is drained there after that lane has read what was there before.
  void order_contents() {
    struct Last {
      TransferId saved;
      std::int32_t used = -1;  // by the host's lane, where the block lives
    };
    std::map<std::pair<BlockId, std::int32_t>, Last> lasts;
    std::size_t task = 0;
    const auto host_tasks = [&](std::size_t end) {
      for (; task < end; ++task) {
        for (std::size_t u = 0; on_host(task) && u < chain_[task].uses.size(); ++u) {
          for (const BlockId block : blocks_of(chain_[task].uses[u])) {
            Last& last = lasts[{block, chain_[task].uses[u].micro_batch}];
            if (last.saved.valid()) {
              add_wait(plan_.tasks[task].waits, last.saved);
            }
            last.used = static_cast<std::int32_t>(task);
          }
        }
      }
    };
    for (const Move& move : moves_) {
      host_tasks(at(move.task) + (move.fetch ? 0 : 1));
      Transfer& start = plan_.transfers[move.first.index()];
      Last& last = lasts[{start.block, start.micro_batch}];
      if (move.fetch && last.saved.valid()) {
        add_wait(start.after_transfers, last.saved);
      }
      if (!move.own) {
        start.after_host_task = std::max(start.after_host_task, last.used);
      }
      if (!move.fetch) {
        last.saved = move.last;
      }
    }
    host_tasks(chain_.size());
  }

  [[nodiscard]] std::vector<BlockId> blocks_of(const ChainUse& use) const {
    const std::vector<BlockId>& blocks = workload_.spans[use.span.index()].blocks;
    return use.block < 0 ? blocks : std::vector<BlockId>{blocks[at(use.block)]};
  }

  void tasks_wait_for_fetches() {
    for (const Move& move : moves_) {
      if (move.fetch) {
        add_wait(plan_.tasks[at(move.task)].waits, move.last);
      }
    }
  }

  void homes() {
    std::vector<AllocationId> resident(workload_.spans.size());
    for (std::size_t a = 0; a < plan_.allocations.size(); ++a) {
      const bool compute = a < schedule_.visits.size();
      const Visit& visit =
          compute ? schedule_.visits[a] : host_visits()[a - schedule_.visits.size()];
      if (visit.resident) {
        resident[visit.span.index()] = AllocationId(a);
      }
    }
    for (std::size_t b = 0; b < workload_.blocks.size(); ++b) {
      const Block& block = workload_.blocks[b];
      if (!block.persistent) {
        continue;
      }
      const AllocationId at_home = resident[block.span.index()];
      Home home;
      home.block = BlockId(b);
      home.tier = at_home.valid() ? plan_.allocations[at_home.index()].tier : Tier::nvme;
      home.allocation = at_home;
      home.offset = at_home.valid() ? block.span_offset : 0;
      plan_.homes.push_back(home);
    }
  }

  void count_bytes() {
    std::vector<RoleBytes> roles(at(role_count));
    const auto of = [&](BlockId block) -> RoleBytes& {
      return roles[static_cast<std::size_t>(workload_.blocks[block.index()].role)];
    };
    for (const Allocation& allocation : plan_.allocations) {
      if (allocation.resident) {
        RoleBytes& role = roles[static_cast<std::size_t>(allocation.role)];
        const bool beside = staged() && allocation.tier == Tier::host;
        (beside ? role.hosted : role.resident) += allocation.bytes;
      }
    }
    std::set<std::pair<BlockId, std::int32_t>> spilled;
    for (const Transfer& transfer : plan_.transfers) {
      RoleBytes& role = of(transfer.block);
      moved(role, transfer.lane) += transfer.bytes;
      const bool drive =
          transfer.lane == LaneKind::nvme_read || transfer.lane == LaneKind::nvme_write;
      if (drive && !workload_.blocks[transfer.block.index()].persistent &&
          spilled.insert({transfer.block, transfer.micro_batch}).second) {
        role.stored += transfer.bytes;
      }
    }
    for (const Home& home : plan_.homes) {
      if (home.tier == Tier::nvme) {
        of(home.block).stored += round_up(
            block_bytes(workload_.blocks[home.block.index()], workload_.shapes.back()), page_bytes);
      }
    }
    for (std::size_t role = 0; role < roles.size(); ++role) {
      RoleBytes& r = roles[role];
      plan_.nvme_pool_bytes += r.stored;
      if (r != RoleBytes{}) {
        r.role = static_cast<Role>(role);
        plan_.bytes.push_back(r);
      }
    }
  }

  const Workload& workload_;
  const Choice& choice_;
  const std::vector<ChainTask>& chain_;
  const Schedule& schedule_;
  const Placement& placement_;
  const HostSide* host_;
  Plan plan_;
  Takeover compute_memory_;
  std::optional<Takeover> host_memory_;
  std::vector<Move> moves_;             // in the order of plan_.transfers
  std::vector<std::int32_t> previous_;  // per task: the one before it in its lane
};

}  // namespace

Plan assemble(const Workload& workload,
              const Choice& choice,
              const std::vector<ChainTask>& chain,
              const Schedule& schedule,
              const Placement& placement,
              const HostSide* host) {
  return Assembly(workload, choice, chain, schedule, placement, host).run();
}

}  // namespace parbuckle
