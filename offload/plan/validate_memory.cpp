// What lies where, and what happens before what: a replay of the plan that holds for every timing of its lanes.
//
// Vector clocks give "ends before starts" between any two events. Memory is cut at every boundary of an allocation or block into
// cells; each cell remembers which block and version it holds, who wrote it last and who has read it since. If every access is
// ordered after the accesses it conflicts with, the replay in one order stands for all of them.
#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <utility>

#include "parbuckle/units.h"

#include "offload/plan/validate_parts.h"

namespace parbuckle::validation {
namespace {

constexpr std::size_t lane_count = lane_kind_count;  // by LaneKind

struct Event {
  std::size_t lane = 0;
  std::int32_t position = 0;       // in its lane
  std::vector<std::size_t> after;  // they end before this one starts
  std::int64_t starts_after =
      -1;  // a transfer of the same lane that starts, and ends, before this one does
  std::array<std::int32_t, lane_count>
      clock{};  // events of each lane that end before this one starts
};

// Last write of something and the latest read per lane since.
struct History {
  std::int32_t write_lane = -1;
  std::int32_t write_position = -1;
  std::array<std::int32_t, lane_count> reads{-1, -1, -1, -1, -1, -1};

  [[nodiscard]] bool may_read(const Event& event) const {
    return write_lane < 0 || event.clock[static_cast<std::size_t>(write_lane)] > write_position;
  }
  [[nodiscard]] bool may_write(const Event& event) const {
    bool ordered = may_read(event);
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      const bool itself = lane == event.lane && reads[lane] == event.position;
      ordered = ordered && (itself || event.clock[lane] > reads[lane]);
    }
    return ordered;
  }
  void read(const Event& event) { reads[event.lane] = std::max(reads[event.lane], event.position); }
  void write(const Event& event) {
    write_lane = static_cast<std::int32_t>(event.lane);
    write_position = event.position;
    reads.fill(-1);
  }
};

using Instance = std::pair<std::int32_t, std::int32_t>;  // block, micro-batch

struct Content {
  Instance what{-1, -1};
  std::int64_t offset = 0;  // of the cell in the block
  std::int32_t version = -1;
  friend bool operator==(const Content&, const Content&) = default;
};

struct Cell {
  Content content;
  History history;
  bool touched = false;  // written in this step
};

struct Stored {
  std::int32_t version = 0;
  History history;
};

struct Extent {
  Instance what;
  Tier tier = Tier::host;
  std::int64_t begin = 0;  // in the tier's arena
  std::int64_t end = 0;
};

// Of the blocks that a task reads and changes, in the order of its operands.
struct Versions {
  std::vector<std::int32_t> read;
  std::vector<std::int32_t> written;
};

// One arena, cut into cells.
struct Arena {
  std::vector<std::int64_t> cuts;  // begin of each cell
  std::vector<Cell> cells;

  void cut_at(std::int64_t begin, std::int64_t end) {
    cuts.push_back(begin);
    cuts.push_back(end);
  }
  void finish_cuts() {
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    cells.resize(cuts.size());
  }
};

class Replay {
 public:
  Replay(const Workload& workload, const Plan& plan, const Templates& templates, Faults& faults)
      : workload_(workload), plan_(plan), templates_(templates), faults_(faults) {}

  void run() {
    build_events();
    cut_cells();
    count_versions();
    if (!order_events()) {
      return;
    }
    for (const std::size_t e : order_) {
      now_ = &events_[e];
      if (e < plan_.tasks.size()) {
        task(e);
      } else {
        transfer(e - plan_.tasks.size());
      }
    }
    check_end();
  }

 private:
  // Events: tasks first, then transfers, by id.
  void build_events() {
    events_.resize(plan_.tasks.size() + plan_.transfers.size());
    std::array<std::int32_t, lane_count> positions{};
    std::array<std::size_t, lane_count> last{};
    const auto join = [&](std::size_t e, std::size_t lane) {
      events_[e].lane = lane;
      events_[e].position = positions[lane]++;
      const bool one_at_a_time = lane_depth(static_cast<LaneKind>(lane)) == 1;
      if (events_[e].position > 0 && one_at_a_time) {
        events_[e].after.push_back(last[lane]);
      } else if (events_[e].position > 0) {
        events_[e].starts_after = static_cast<std::int64_t>(last[lane]);
      }
      last[lane] = e;
    };
    const std::size_t tasks = plan_.tasks.size();
    for (std::size_t t = 0; t < tasks; ++t) {
      const Task& task = plan_.tasks[t];
      join(t, static_cast<std::size_t>(task.lane));
      if (task.after_task >= 0) {
        events_[t].after.push_back(static_cast<std::size_t>(task.after_task));
      }
      for (const TransferId id : task.waits) {
        events_[t].after.push_back(tasks + id.index());
      }
    }
    for (std::size_t i = 0; i < plan_.transfers.size(); ++i) {
      const Transfer& transfer = plan_.transfers[i];
      join(tasks + i, static_cast<std::size_t>(transfer.lane));
      for (const std::int32_t task : {transfer.after_task, transfer.after_host_task}) {
        if (task >= 0) {
          events_[tasks + i].after.push_back(static_cast<std::size_t>(task));
        }
      }
      for (const TransferId id : transfer.after_transfers) {
        events_[tasks + i].after.push_back(tasks + id.index());
      }
    }
  }

  bool order_events() {
    std::vector<std::vector<std::size_t>> next(events_.size());
    std::vector<std::size_t> missing(events_.size());
    for (std::size_t e = 0; e < events_.size(); ++e) {
      missing[e] = events_[e].after.size();
      for (const std::size_t before : events_[e].after) {
        next[before].push_back(e);
      }
      if (events_[e].starts_after >= 0) {
        ++missing[e];
        next[static_cast<std::size_t>(events_[e].starts_after)].push_back(e);
      }
      if (missing[e] == 0) {
        order_.push_back(e);
      }
    }
    for (std::size_t i = 0; i < order_.size(); ++i) {
      Event& event = events_[order_[i]];
      if (event.starts_after >= 0) {
        inherit(event, events_[static_cast<std::size_t>(event.starts_after)]);
      }
      for (const std::size_t b : event.after) {
        const Event& before = events_[b];
        inherit(event, before);
        event.clock[before.lane] = std::max(event.clock[before.lane], before.position + 1);
      }
      for (const std::size_t e : next[order_[i]]) {
        if (--missing[e] == 0) {
          order_.push_back(e);
        }
      }
    }
    if (order_.size() != events_.size()) {
      faults_.push_back("plan: waits form a circle, " +
                        std::to_string(events_.size() - order_.size()) + " events never start");
      return false;
    }
    return true;
  }

  /// What had ended when `before` started had ended when `event` started.
  static void inherit(Event& event, const Event& before) {
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      event.clock[lane] = std::max(event.clock[lane], before.clock[lane]);
    }
  }

  [[nodiscard]] std::vector<Extent> extents(const Allocation& a) const {
    std::vector<Extent> found;
    if (!a.span.valid()) {
      return found;
    }
    const Span& span = workload_.spans[a.span.index()];
    for (std::size_t b = 0; b < span.blocks.size(); ++b) {
      const Block& block = workload_.blocks[span.blocks[b].index()];
      if (a.block >= 0 && static_cast<std::size_t>(a.block) != b) {
        continue;
      }
      const std::int64_t begin = a.offset + (a.block < 0 ? block.span_offset : 0);
      const std::int64_t bytes = round_up(block_bytes(block, workload_.shapes.back()), page_bytes);
      found.push_back({{span.blocks[b].value, a.micro_batch}, a.tier, begin, begin + bytes});
    }
    return found;
  }

  [[nodiscard]] Tier tier_of(const Task& task) const {
    return plan_.device_arena_bytes > 0 && task.lane == LaneKind::compute ? Tier::device
                                                                          : Tier::host;
  }
  Arena& arena(Tier tier) { return tier == Tier::device ? device_ : host_; }

  void cut_cells() {
    for (const Allocation& a : plan_.allocations) {
      extents_.push_back(extents(a));
      arena(a.tier).cut_at(a.offset, a.offset + a.bytes);
      for (const Extent& extent : extents_.back()) {
        arena(a.tier).cut_at(extent.begin, extent.end);
      }
    }
    for (const Task& t : plan_.tasks) {
      arena(tier_of(t)).cut_at(t.scratch_offset, t.scratch_offset + t.scratch_bytes);
    }
    device_.finish_cuts();
    host_.finish_cuts();
  }

  template <class Visit>
  void each_cell(const Extent& extent, Visit&& visit) {
    Arena& in = arena(extent.tier);
    auto cut = std::lower_bound(in.cuts.begin(), in.cuts.end(), extent.begin);
    for (; cut != in.cuts.end() && *cut < extent.end; ++cut) {
      visit(in.cells[static_cast<std::size_t>(cut - in.cuts.begin())], *cut);
    }
  }

  [[nodiscard]] std::string name(Instance what) const {
    const std::string& block = workload_.blocks[static_cast<std::size_t>(what.first)].name;
    return what.second < 0 ? block : block + " of micro-batch " + std::to_string(what.second);
  }

  void fault(const std::string& event, const std::string& what) {
    constexpr std::size_t enough = 50;
    if (faults_.size() < enough) {
      faults_.push_back(event + ": " + what);
    }
  }

  // Reads one block from memory: each cell must hold `version` of it, written before `now_` starts.
  void read_memory(const std::string& event,
                   const Extent& extent,
                   std::int32_t version,
                   bool resident) {
    std::string wrong;
    each_cell(extent, [&](Cell& cell, std::int64_t at) {
      const Content wanted{extent.what, at - extent.begin, version};
      if (!cell.touched && cell.content.version < 0 && resident && version == 0) {
        cell.content =
            wanted;  // held since the step before; check_end() sees that it is there again
        assumed_.emplace_back(&cell, wanted);
      }
      if (cell.content != wanted) {
        wrong = cell.content.what == extent.what ? "an old version" : "other bytes";
      } else if (!cell.history.may_read(*now_)) {
        wrong = "bytes that may still be arriving";
      }
      cell.history.read(*now_);
    });
    if (!wrong.empty()) {
      fault(event, "reads " + wrong + " where " + name(extent.what) + " should be");
    }
  }

  void write_memory(const std::string& event, const Extent& extent, std::int32_t version) {
    bool ordered = true;
    each_cell(extent, [&](Cell& cell, std::int64_t at) {
      ordered = ordered && cell.history.may_write(*now_);
      cell.content = {extent.what, at - extent.begin, version};
      cell.touched = true;
      cell.history.write(*now_);
    });
    if (!ordered) {
      fault(event,
            "overwrites memory that is still in use" +
                (extent.what.first < 0 ? std::string(" (scratch)") : " with " + name(extent.what)));
    }
  }

  // Versions are counted along Plan::tasks: with two compute lanes the order in time may be another one, and each task must
  // still read what the tasks before it in the list have left.
  void count_versions() {
    for (std::size_t t = 0; t < plan_.tasks.size(); ++t) {
      const Task& task = plan_.tasks[t];
      Versions versions;
      std::vector<Instance> changes;
      for (std::size_t i = 0; i < task.operands.size(); ++i) {
        for (const Extent& extent : covered(task.operands[i], templates_[t]->uses[i])) {
          if (task.operands[i].access != Access::write) {
            versions.read.push_back(newest_[extent.what]);
          }
          if (task.operands[i].access != Access::read) {
            changes.push_back(extent.what);
          }
        }
      }
      for (const Instance& what : changes) {
        versions.written.push_back(++newest_[what]);
      }
      versions_.push_back(std::move(versions));
    }
  }

  // The blocks that an operand covers.
  [[nodiscard]] std::vector<Extent> covered(const TaskOperand& operand, const Use& use) const {
    std::vector<Extent> found;
    const BlockId only =
        use.block < 0
            ? BlockId()
            : workload_.spans[use.span.index()].blocks[static_cast<std::size_t>(use.block)];
    for (const Extent& extent : extents_[operand.allocation.index()]) {
      if (use.block < 0 || extent.what.first == only.value) {
        found.push_back(extent);
      }
    }
    return found;
  }

  void task(std::size_t t) {
    const Task& task = plan_.tasks[t];
    const std::string event =
        "task " + std::to_string(t) + " (" + workload_.families[task.family.index()].name + ")";
    std::vector<Extent> changes;
    auto read = versions_[t].read.begin();
    for (std::size_t i = 0; i < task.operands.size(); ++i) {
      const TaskOperand& operand = task.operands[i];
      const bool resident = plan_.allocations[operand.allocation.index()].resident;
      for (const Extent& extent : covered(operand, templates_[t]->uses[i])) {
        if (operand.access != Access::write) {
          read_memory(event, extent, *read++, resident);
        }
        if (operand.access != Access::read) {
          changes.push_back(extent);
        }
      }
    }
    if (task.scratch_bytes > 0) {
      const Extent scratch{
          {-1, -1}, tier_of(task), task.scratch_offset, task.scratch_offset + task.scratch_bytes};
      write_memory(event, scratch, 0);
    }
    for (std::size_t i = 0; i < changes.size(); ++i) {
      write_memory(event, changes[i], versions_[t].written[i]);
    }
  }

  void transfer(std::size_t i) {
    const Transfer& t = plan_.transfers[i];
    const std::string event =
        "transfer " + std::to_string(i) + " (" + std::string(to_string(t.lane)) + ")";
    switch (t.lane) {
      case LaneKind::nvme_read:
        write_memory(event, extent_of(t, t.allocation, t.offset), read_drive(event, t));
        break;
      case LaneKind::nvme_write:
        write_drive(event, t, copy_from(event, t, t.allocation, t.offset));
        break;
      case LaneKind::h2d:
        write_memory(event,
                     extent_of(t, t.allocation, t.offset),
                     copy_from(event, t, t.host, t.host_offset));
        break;
      case LaneKind::d2h:
        write_memory(event,
                     extent_of(t, t.host, t.host_offset),
                     copy_from(event, t, t.allocation, t.offset));
        break;
      case LaneKind::compute:
      case LaneKind::host_compute:
        break;
    }
  }

  static Instance instance_of(const Transfer& t) { return {t.block.value, t.micro_batch}; }

  [[nodiscard]] Extent extent_of(const Transfer& t,
                                 AllocationId allocation,
                                 std::int64_t offset) const {
    const Allocation& a = plan_.allocations[allocation.index()];
    const std::int64_t begin = a.offset + offset;
    return {instance_of(t), a.tier, begin, begin + t.bytes};
  }

  // Reads the block where a transfer takes it from; returns the version that is there, -1 if it is another block.
  std::int32_t copy_from(const std::string& event,
                         const Transfer& t,
                         AllocationId allocation,
                         std::int64_t offset) {
    const Extent extent = extent_of(t, allocation, offset);
    const bool resident = plan_.allocations[allocation.index()].resident;
    std::int32_t version = -1;
    each_cell(extent, [&](Cell& cell, std::int64_t) {
      const bool held = resident && !cell.touched && cell.content.version < 0;
      const bool same = cell.content.what == extent.what;
      version = held ? 0 : (same ? cell.content.version : -1);
    });
    read_memory(event, extent, version, resident);
    return version;
  }

  std::int32_t read_drive(const std::string& event, const Transfer& t) {
    Stored& stored = stored_[instance_of(t)];
    if (!stored.history.may_read(*now_)) {
      fault(event, "reads " + name(instance_of(t)) + " while it may still be written");
    }
    stored.history.read(*now_);
    return stored.version;
  }

  void write_drive(const std::string& event, const Transfer& t, std::int32_t version) {
    Stored& stored = stored_[instance_of(t)];
    if (!stored.history.may_write(*now_)) {
      fault(event,
            "overwrites " + name(instance_of(t)) +
                " on the drive while it may still be read or written");
    }
    stored.version = version;
    stored.history.write(*now_);
  }

  // The next step must find everything where this one found it.
  void check_end() {
    for (const auto& [cell, content] : assumed_) {
      Content wanted = content;
      wanted.version = newest_[content.what];
      if (cell->content != wanted) {
        fault("end of step", name(content.what) + " is not held for the next step");
        return;
      }
    }
    for (const auto& [what, stored] : stored_) {
      const Block& block = workload_.blocks[static_cast<std::size_t>(what.first)];
      const bool stale = stored.version != newest_[what];
      if (!block.persistent && stale && read_before_written(what)) {
        fault("end of step", name(what) + " is not stored for the next step");
      }
    }
    for (const Home& home : plan_.homes) {
      check_home(home);
    }
  }

  // True if the first transfer of a block reads it: it then comes from the step before.
  [[nodiscard]] bool read_before_written(Instance what) const {
    for (const Transfer& t : plan_.transfers) {
      const bool drive = t.lane == LaneKind::nvme_read || t.lane == LaneKind::nvme_write;
      if (drive && instance_of(t) == what) {
        return t.lane == LaneKind::nvme_read;
      }
    }
    return false;
  }

  void check_home(const Home& home) {
    const Instance what{home.block.value, -1};
    const std::int32_t newest = newest_[what];
    if (home.tier == Tier::nvme) {
      if (stored_[what].version != newest) {
        fault("end of step", name(what) + " was changed and not written to its home");
      }
      return;
    }
    for (const Extent& extent : extents_[home.allocation.index()]) {
      if (extent.what != what) {
        continue;
      }
      bool kept = true;
      each_cell(extent, [&](Cell& cell, std::int64_t at) {
        const Content wanted{what, at - extent.begin, newest};
        const bool untouched = !cell.touched && newest == 0;
        kept = kept && (untouched || cell.content == wanted);
      });
      if (!kept) {
        fault("end of step", name(what) + " is not in its home");
      }
    }
  }

  const Workload& workload_;
  const Plan& plan_;
  const Templates& templates_;
  Faults& faults_;
  std::vector<Event> events_;
  std::vector<std::size_t> order_;
  const Event* now_ = nullptr;
  std::vector<std::vector<Extent>> extents_;  // per allocation
  Arena device_;
  Arena host_;
  std::vector<Versions> versions_;           // per task
  std::map<Instance, std::int32_t> newest_;  // after all tasks
  std::map<Instance, Stored> stored_;
  std::vector<std::pair<const Cell*, Content>> assumed_;
};

}  // namespace

void check_memory(const Workload& workload,
                  const Plan& plan,
                  const Templates& templates,
                  Faults& faults) {
  Replay(workload, plan, templates, faults).run();
}

}  // namespace parbuckle::validation
