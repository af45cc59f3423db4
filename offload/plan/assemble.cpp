#include "offload/plan/assemble.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

// One range of tasks during which a visit holds its addresses.
struct Tenure {
  std::int32_t visit = 0;
  TaskRange tasks;
  bool first = true;  // the visit's first: its fetches belong to it
};

// What must be over before a tenure may begin.
struct Ready {
  std::int32_t after_task = -1;
  std::int32_t after_write = -1;  // position in the write lane
};

struct Read {
  std::int32_t visit = 0;
  Fetch fetch;
};

struct Write {
  std::int32_t visit = 0;
  Drain drain;
};

class Assembly {
 public:
  Assembly(const Workload& workload,
           const Choice& choice,
           const std::vector<ChainTask>& chain,
           const Schedule& schedule,
           const Placement& placement)
      : workload_(workload),
        choice_(choice),
        chain_(chain),
        schedule_(schedule),
        placement_(placement) {}

  Plan run() {
    plan_.workload = workload_.name;
    plan_.phase = workload_.phase;
    plan_.choice = choice_;
    plan_.host_arena_bytes = placement_.arena_bytes;
    allocations();
    tasks();
    order_lanes();
    order_memory();
    reads_after_writes();
    merge_lanes();
    homes();
    count_bytes();
    return std::move(plan_);
  }

 private:
  void allocations() {
    for (std::size_t v = 0; v < schedule_.visits.size(); ++v) {
      const Visit& visit = schedule_.visits[v];
      Allocation allocation;
      allocation.what = name_of(visit);
      allocation.role = visit.role;
      allocation.span = visit.span;
      allocation.block = visit.block;
      allocation.micro_batch = visit.micro_batch;
      allocation.offset = placement_.offset[v];
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

  void tasks() {
    for (std::size_t i = 0; i < chain_.size(); ++i) {
      const ChainTask& from = chain_[i];
      Task task;
      task.kind = from.kind;
      task.family = from.family;
      task.unit = from.unit;
      task.micro_batch = from.micro_batch;
      for (std::size_t u = 0; u < from.uses.size(); ++u) {
        const VisitOperand& operand = schedule_.operands[i][u];
        task.operands.push_back({AllocationId(static_cast<std::int64_t>(operand.visit)),
                                 operand.offset,
                                 from.uses[u].access});
      }
      const std::int32_t scratch = schedule_.scratch[i];
      if (scratch >= 0) {
        task.scratch_offset = placement_.offset[at(scratch)];
        task.scratch_bytes = workload_.families[from.family.index()].scratch_bytes;
      }
      plan_.tasks.push_back(std::move(task));
    }
  }

  void order_lanes() {
    for (std::size_t v = 0; v < schedule_.visits.size(); ++v) {
      for (const Fetch& fetch : schedule_.visits[v].fetches) {
        reads_.push_back({static_cast<std::int32_t>(v), fetch});
      }
      for (const Drain& drain : schedule_.visits[v].drains) {
        writes_.push_back({static_cast<std::int32_t>(v), drain});
      }
    }
    std::stable_sort(reads_.begin(), reads_.end(), [](const Read& a, const Read& b) {
      return a.fetch.need < b.fetch.need;
    });
    std::stable_sort(writes_.begin(), writes_.end(), [](const Write& a, const Write& b) {
      return a.drain.after < b.drain.after;
    });
    last_write_.assign(schedule_.visits.size(), -1);
    for (std::size_t w = 0; w < writes_.size(); ++w) {
      last_write_[at(writes_[w].visit)] = static_cast<std::int32_t>(w);
    }
  }

  // Walks the tenures in time and remembers who held each address last.
  void order_memory() {
    std::vector<Tenure> tenures;
    for (std::size_t v = 0; v < schedule_.visits.size(); ++v) {
      const Visit& visit = schedule_.visits[v];
      for (std::int32_t r = 0; r < visit.held_count && !visit.resident; ++r) {
        tenures.push_back({static_cast<std::int32_t>(v), visit.held[at(r)], r == 0});
      }
    }
    std::stable_sort(tenures.begin(), tenures.end(), [](const Tenure& a, const Tenure& b) {
      return a.tasks.first < b.tasks.first;
    });
    ready_.resize(schedule_.visits.size());
    for (const Tenure& tenure : tenures) {
      const Ready ready = take_over(tenure);
      if (tenure.first) {
        ready_[at(tenure.visit)] = ready;
      }
      wait_for_write(tenure.tasks.first, ready.after_write);
    }
  }

  Ready take_over(const Tenure& tenure) {
    Ready ready;
    const std::int64_t begin = placement_.offset[at(tenure.visit)];
    const std::int64_t end = begin + schedule_.visits[at(tenure.visit)].bytes;
    auto piece = holders_.lower_bound(begin);
    if (piece != holders_.begin() && std::prev(piece)->second.end > begin) {
      --piece;
    }
    while (piece != holders_.end() && piece->first < end) {
      const auto [offset, held] = *piece;
      ready.after_task = std::max(ready.after_task, held.last_task);
      ready.after_write = std::max(ready.after_write, last_write_[at(held.visit)]);
      piece = holders_.erase(piece);
      if (offset < begin) {
        holders_[offset] = {begin, held.visit, held.last_task};
      }
      if (held.end > end) {
        holders_[end] = held;
      }
    }
    holders_[begin] = {end, tenure.visit, tenure.tasks.last};
    return ready;
  }

  void wait_for_write(std::int32_t task, std::int32_t write) {
    if (write >= 0) {
      task_writes_.resize(plan_.tasks.size(), -1);
      task_writes_[at(task)] = std::max(task_writes_[at(task)], write);
    }
  }

  // A block is read after the write that saved its newest bytes.
  void reads_after_writes() {
    std::map<std::pair<BlockId, std::int32_t>, std::vector<std::int32_t>> saved;
    for (std::size_t w = 0; w < writes_.size(); ++w) {
      const std::int32_t micro_batch = schedule_.visits[at(writes_[w].visit)].micro_batch;
      saved[{writes_[w].drain.block, micro_batch}].push_back(static_cast<std::int32_t>(w));
    }
    read_saved_.assign(reads_.size(), -1);
    for (std::size_t r = 0; r < reads_.size(); ++r) {
      const auto found =
          saved.find({reads_[r].fetch.block, schedule_.visits[at(reads_[r].visit)].micro_batch});
      if (found == saved.end()) {
        continue;
      }
      for (const std::int32_t w : found->second) {
        if (writes_[at(w)].drain.after < reads_[r].fetch.need) {
          read_saved_[r] = w;
        }
      }
    }
  }

  [[nodiscard]] Transfer read_transfer(std::size_t r) const {
    const Read& read = reads_[r];
    const Ready& ready = ready_[at(read.visit)];
    Transfer transfer;
    transfer.lane = LaneKind::nvme_read;
    transfer.block = read.fetch.block;
    transfer.micro_batch = schedule_.visits[at(read.visit)].micro_batch;
    transfer.allocation = AllocationId(static_cast<std::int64_t>(read.visit));
    transfer.offset = read.fetch.offset;
    transfer.bytes = read.fetch.bytes;
    transfer.after_task =
        choice_.prefetch == 0 ? std::max(ready.after_task, read.fetch.need - 1) : ready.after_task;
    return transfer;
  }

  [[nodiscard]] Transfer write_transfer(std::size_t w) const {
    const Write& write = writes_[w];
    Transfer transfer;
    transfer.lane = LaneKind::nvme_write;
    transfer.block = write.drain.block;
    transfer.micro_batch = schedule_.visits[at(write.visit)].micro_batch;
    transfer.allocation = AllocationId(static_cast<std::int64_t>(write.visit));
    transfer.offset = write.drain.offset;
    transfer.bytes = write.drain.bytes;
    transfer.after_task = write.drain.after;
    return transfer;
  }

  // Transfers in the order of the tasks they belong to; ids follow, then the waits that name them.
  void merge_lanes() {
    std::vector<TransferId> write_id(writes_.size());
    std::vector<TransferId> last_read(plan_.tasks.size());
    std::size_t w = 0;
    for (std::size_t r = 0; r <= reads_.size(); ++r) {
      while (w < writes_.size() &&
             (r == reads_.size() || writes_[w].drain.after < reads_[r].fetch.need)) {
        write_id[w] = TransferId(plan_.transfers.size());
        plan_.transfers.push_back(write_transfer(w));
        ++w;
      }
      if (r == reads_.size()) {
        break;
      }
      Transfer transfer = read_transfer(r);
      const std::int32_t after = std::max(ready_[at(reads_[r].visit)].after_write, read_saved_[r]);
      if (after >= 0) {
        transfer.after_transfers.push_back(write_id[at(after)]);
      }
      last_read[at(reads_[r].fetch.need)] = TransferId(plan_.transfers.size());
      plan_.transfers.push_back(std::move(transfer));
    }
    for (std::size_t t = 0; t < plan_.tasks.size(); ++t) {
      if (last_read[t].valid()) {
        plan_.tasks[t].waits.push_back(last_read[t]);
      }
      if (t < task_writes_.size() && task_writes_[t] >= 0) {
        plan_.tasks[t].waits.push_back(write_id[at(task_writes_[t])]);
      }
    }
  }

  void homes() {
    std::vector<std::int32_t> resident(workload_.spans.size(), -1);
    for (std::size_t v = 0; v < schedule_.visits.size(); ++v) {
      if (schedule_.visits[v].resident) {
        resident[schedule_.visits[v].span.index()] = static_cast<std::int32_t>(v);
      }
    }
    for (std::size_t b = 0; b < workload_.blocks.size(); ++b) {
      const Block& block = workload_.blocks[b];
      if (!block.persistent) {
        continue;
      }
      Home home;
      home.block = BlockId(b);
      const std::int32_t visit = resident[block.span.index()];
      home.tier = visit >= 0 ? Tier::host : Tier::nvme;
      if (visit >= 0) {
        home.allocation = AllocationId(static_cast<std::int64_t>(visit));
        home.offset = block.span_offset;
      }
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
        roles[static_cast<std::size_t>(allocation.role)].resident += allocation.bytes;
      }
    }
    std::set<std::pair<BlockId, std::int32_t>> spilled;
    for (const Transfer& transfer : plan_.transfers) {
      const bool read = transfer.lane == LaneKind::nvme_read;
      (read ? of(transfer.block).read : of(transfer.block).written) += transfer.bytes;
      if (!workload_.blocks[transfer.block.index()].persistent &&
          spilled.insert({transfer.block, transfer.micro_batch}).second) {
        of(transfer.block).stored += transfer.bytes;
      }
    }
    for (const Home& home : plan_.homes) {
      if (home.tier == Tier::nvme) {
        of(home.block).stored += round_up(
            block_bytes(workload_.blocks[home.block.index()], workload_.shapes.back()), page_bytes);
      }
    }
    for (std::size_t role = 0; role < roles.size(); ++role) {
      roles[role].role = static_cast<Role>(role);
      plan_.nvme_pool_bytes += roles[role].stored;
      const RoleBytes& r = roles[role];
      if (r.read + r.written + r.resident + r.stored > 0) {
        plan_.bytes.push_back(r);
      }
    }
  }

  struct Holder {
    std::int64_t end = 0;
    std::int32_t visit = 0;
    std::int32_t last_task = 0;
  };

  const Workload& workload_;
  const Choice& choice_;
  const std::vector<ChainTask>& chain_;
  const Schedule& schedule_;
  const Placement& placement_;
  Plan plan_;
  std::vector<Read> reads_;                 // in lane order
  std::vector<Write> writes_;               // in lane order
  std::vector<std::int32_t> last_write_;    // per visit: its last position in writes_, -1 if none
  std::vector<Ready> ready_;                // per visit
  std::vector<std::int32_t> task_writes_;   // per task: the write it waits for, -1 if none
  std::vector<std::int32_t> read_saved_;    // per read: the write that saved what it reads
  std::map<std::int64_t, Holder> holders_;  // by offset
};

}  // namespace

Plan assemble(const Workload& workload,
              const Choice& choice,
              const std::vector<ChainTask>& chain,
              const Schedule& schedule,
              const Placement& placement) {
  return Assembly(workload, choice, chain, schedule, placement).run();
}

}  // namespace parbuckle
