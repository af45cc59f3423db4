#include "offload/plan/schedule.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

// What one run of uses does with one block.
struct BlockRun {
  bool used = false;
  bool starts_with_write = false;
  std::int32_t first = 0;
  std::int32_t last = 0;
  std::int32_t changed = -1;  // task of the last change
};

// Uses first..end of an object that see the same memory.
struct Run {
  std::size_t first = 0;
  std::size_t end = 0;
  bool whole = false;  // some use needs the span as one range
  std::vector<BlockRun> blocks;
};

struct Object {
  SpanId span;
  std::int32_t micro_batch = -1;
  const std::vector<UseAt>* all = nullptr;   // in chain order
  const std::vector<UseAt>* uses = nullptr;  // those of the compute lane
  [[nodiscard]] bool by_host() const { return uses->size() < all->size(); }
};

bool covers(const UseAt& use, std::size_t block) {
  return use.block < 0 || at(use.block) == block;
}

class Scheduler {
 public:
  Scheduler(const Workload& workload,
            const Choice& choice,
            const std::vector<ChainTask>& chain,
            const UseTable& uses)
      : workload_(workload),
        choice_(choice),
        chain_(chain),
        uses_(uses),
        resident_(workload.spans.size(), false),
        hosted_(workload.spans.size(), false) {
    for (const SpanId span : choice.resident) {
      resident_[span.index()] = true;
    }
    for (const SpanId span : choice.hosted) {
      hosted_[span.index()] = true;
    }
  }

  /// Reserves an operand for every use; without it visits are made and operands are not.
  void want_operands() {
    out_.operands.resize(chain_.size());
    for (std::size_t i = 0; i < chain_.size(); ++i) {
      out_.operands[i].resize(chain_[i].uses.size());
    }
  }

  Status plan_span(SpanId span) {
    const bool per_micro_batch = workload_.spans[span.index()].per_micro_batch;
    const std::int32_t first = uses_.first_object[span.index()];
    const std::int32_t end = uses_.first_object[span.index() + 1];
    for (std::int32_t object = first; object < end; ++object) {
      const std::vector<UseAt>& all = uses_.uses[at(object)];
      const auto on_host = [](const UseAt& use) { return use.lane == LaneKind::host_compute; };
      std::vector<UseAt> here;
      const bool by_host = std::any_of(all.begin(), all.end(), on_host);
      if (by_host) {
        std::remove_copy_if(all.begin(), all.end(), std::back_inserter(here), on_host);
      }
      PARBUCKLE_TRY(
          plan_object({span, per_micro_batch ? object - first : -1, &all, by_host ? &here : &all}));
    }
    return Status();
  }

  void plan_scratch() {
    out_.scratch.assign(chain_.size(), -1);
    for (std::int32_t task = 0; task < tasks(); ++task) {
      const ChainTask& now = chain_[at(task)];
      const std::int64_t bytes = workload_.families[now.family.index()].scratch_bytes;
      if (bytes == 0 || now.lane == LaneKind::host_compute) {
        continue;
      }
      const bool continues = task > 0 && chain_[at(task - 1)].family == now.family &&
                             chain_[at(task - 1)].lane == now.lane &&
                             chain_[at(task - 1)].unit == now.unit;
      if (continues) {
        out_.scratch[at(task)] = out_.scratch[at(task - 1)];
        out_.visits[at(out_.scratch[at(task)])].held[0].last = task;
        continue;
      }
      Visit visit;
      visit.bytes = round_up(bytes, page_bytes);
      visit.held[0] = {task, task};
      out_.scratch[at(task)] = add(std::move(visit));
    }
  }

  Schedule take() { return std::move(out_); }

 private:
  [[nodiscard]] std::int32_t tasks() const { return static_cast<std::int32_t>(chain_.size()); }
  [[nodiscard]] const Span& span_of(SpanId span) const { return workload_.spans[span.index()]; }
  [[nodiscard]] const Block& block_of(const Object& object, std::size_t block) const {
    return workload_.blocks[span_of(object.span).blocks[block].index()];
  }
  [[nodiscard]] std::int64_t transfer_bytes(const Block& block) const {
    return round_up(block_bytes(block, workload_.shapes.back()), page_bytes);
  }

  std::int32_t add(Visit visit) {
    out_.visits.push_back(std::move(visit));
    return static_cast<std::int32_t>(out_.visits.size()) - 1;
  }

  [[nodiscard]] Visit blank(const Object& object, std::int32_t block) const {
    Visit visit;
    visit.span = object.span;
    visit.block = block;
    visit.micro_batch = object.micro_batch;
    visit.role = block_of(object, 0).role;
    visit.place = object.uses->empty() ? WaitsIn::compute : place_of(object);
    visit.bytes = block < 0 ? round_up(span_of(object.span).bytes, page_bytes)
                            : transfer_bytes(block_of(object, at(block)));
    return visit;
  }

  void bind(const Object& object, const UseAt& use, std::int32_t visit) {
    if (out_.operands.empty()) {
      return;
    }
    const bool inside = use.block >= 0 && out_.visits[at(visit)].block < 0;
    out_.operands[at(use.task)][at(use.use)] = {
        visit, inside ? block_of(object, at(use.block)).span_offset : 0};
  }

  // Where an object waits between its visits. What the host's lane uses never waits in compute memory.
  [[nodiscard]] WaitsIn place_of(const Object& object) const {
    if (resident_[object.span.index()] && !object.by_host()) {
      return WaitsIn::compute;
    }
    switch (block_of(object, 0).role) {
      case Role::gradient:
      case Role::sparse_gradient:
        return object.by_host() && choice_.gradient == WaitsIn::compute ? WaitsIn::host
                                                                        : choice_.gradient;
      case Role::activation: {
        const UnitId unit = chain_[at(object.uses->front().task)].unit;
        return unit.valid() ? choice_.activation[unit.index()] : WaitsIn::compute;
      }
      case Role::boundary:
        return choice_.boundary;
      case Role::weight:
      case Role::frozen_weight:
      case Role::quantisation_scale:
      case Role::master_low:
      case Role::moment1:
      case Role::moment2:
        return hosted_[object.span.index()] ? WaitsIn::host : WaitsIn::nvme;
      case Role::stream:
      case Role::batch:
      case Role::kv_cache:
      case Role::statistic:
      case Role::scratch:
        return WaitsIn::compute;
    }
    return WaitsIn::compute;
  }

  Status plan_object(const Object& object) {
    const bool persistent = block_of(object, 0).persistent;
    const bool pinned = resident_[object.span.index()];
    if (always_resident(workload_, object.span) || (persistent && pinned && !object.by_host())) {
      Visit visit = blank(object, -1);
      visit.resident = true;
      visit.held[0] = {0, tasks() - 1};
      if (object.by_host()) {
        show_to_host(object, visit);
      }
      const std::int32_t id = add(std::move(visit));
      for (const UseAt& use : *object.uses) {
        bind(object, use, id);
      }
      return Status();
    }
    if (object.uses->empty()) {
      return Status();
    }
    const bool kept = !persistent && place_of(object) == WaitsIn::compute;
    // A weight that the host updates is new in every step: kept, it is fetched once.
    std::vector<Run> runs = split(object, kept || (persistent && pinned));
    for (std::size_t r = 0; r < runs.size(); ++r) {
      PARBUCKLE_TRY(kept ? keep(object, runs[r]) : stream(object, runs, r));
    }
    return Status();
  }

  // A block that both memories hold always goes up after its last change before the host's lane reads it.
  void show_to_host(const Object& object, Visit& visit) const {
    for (std::size_t b = 0; b < span_of(object.span).blocks.size(); ++b) {
      std::int32_t changed = -1;
      const auto show = [&] {
        if (changed >= 0) {
          const Block& block = block_of(object, b);
          visit.drains.push_back(
              {span_of(object.span).blocks[b], block.span_offset, transfer_bytes(block), changed});
          changed = -1;
        }
      };
      for (const UseAt& use : *object.all) {
        if (!covers(use, b)) {
          continue;
        }
        if (use.lane == LaneKind::host_compute) {
          show();
        } else if (use.access != Access::read) {
          changed = use.task;
        }
      }
      show();  // for the next step
    }
  }

  // Runs of uses in consecutive unit visits; one run if the object never leaves.
  [[nodiscard]] std::vector<Run> split(const Object& object, bool kept) const {
    const std::vector<UseAt>& uses = *object.uses;
    std::vector<Run> runs;
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const std::int32_t gap =
          i == 0 ? 0 : uses_.unit_visit[at(uses[i].task)] - uses_.unit_visit[at(uses[i - 1].task)];
      if (i == 0 || (gap > 1 && !kept)) {
        runs.push_back({i, i, false, std::vector<BlockRun>(span_of(object.span).blocks.size())});
      }
      note(uses[i], runs.back());
      runs.back().end = i + 1;
    }
    return runs;
  }

  static void note(const UseAt& use, Run& run) {
    run.whole = run.whole || use.block < 0;
    for (std::size_t b = 0; b < run.blocks.size(); ++b) {
      if (use.block >= 0 && at(use.block) != b) {
        continue;
      }
      BlockRun& block = run.blocks[b];
      if (!block.used) {
        block = {true, use.access == Access::write, use.task, use.task, -1};
      }
      block.last = use.task;
      if (use.access != Access::read) {
        block.changed = use.task;
      }
    }
  }

  // One allocation per run, or per block where nothing needs the span as one range. Binds the uses.
  std::vector<std::int32_t> add_visits(const Object& object, const Run& run) {
    std::vector<std::int32_t> ids(run.blocks.size(), -1);
    const auto& uses = *object.uses;
    if (run.whole) {
      Visit visit = blank(object, -1);
      visit.held[0] = {uses[run.first].task, uses[run.end - 1].task};
      ids.assign(ids.size(), add(std::move(visit)));
    } else {
      for (std::size_t b = 0; b < run.blocks.size(); ++b) {
        if (run.blocks[b].used) {
          Visit visit = blank(object, static_cast<std::int32_t>(b));
          visit.held[0] = {run.blocks[b].first, run.blocks[b].last};
          ids[b] = add(std::move(visit));
        }
      }
    }
    for (std::size_t i = run.first; i < run.end; ++i) {
      bind(object, uses[i], ids[uses[i].block < 0 ? 0 : at(uses[i].block)]);
    }
    return ids;
  }

  Status keep(const Object& object, const Run& run) {
    const std::vector<std::int32_t> ids = add_visits(object, run);
    for (std::size_t b = 0; b < ids.size(); ++b) {
      const BlockRun& block = run.blocks[b];
      if (!block.used || block.starts_with_write) {
        continue;
      }
      if (block.changed < 0) {
        return never_written(block_of(object, b));
      }
      cross_step(object, run, out_.visits[at(ids[b])]);
    }
    return Status();
  }

  static Status never_written(const Block& block) {
    return internal_error("workload: block '" + block.name + "' is read and nothing writes it");
  }

  // The content at the start of a step is the one of the step before: held over the boundary, free in between.
  void cross_step(const Object& object, const Run& run, Visit& visit) const {
    visit.crosses = true;
    visit.held_count = 1;
    std::int32_t last_read = visit.held[0].first;
    for (std::size_t i = run.first; i < run.end; ++i) {
      const UseAt& use = (*object.uses)[i];
      if (visit.block >= 0 && use.block != visit.block) {
        continue;
      }
      if (use.access == Access::write) {
        visit.held[0] = {0, last_read};
        visit.held[1] = {use.task, tasks() - 1};
        visit.held_count = 2;
        return;
      }
      last_read = use.task;
    }
    visit.held[0] = {0, tasks() - 1};
  }

  Status stream(const Object& object, const std::vector<Run>& runs, std::size_t r) {
    const std::vector<std::int32_t> ids = add_visits(object, runs[r]);
    for (std::size_t b = 0; b < ids.size(); ++b) {
      const BlockRun& now = runs[r].blocks[b];
      if (!now.used) {
        continue;
      }
      const Block& block = block_of(object, b);
      Visit& visit = out_.visits[at(ids[b])];
      const BlockId id = span_of(object.span).blocks[b];
      const std::int64_t offset = visit.block < 0 ? block.span_offset : 0;
      if (!now.starts_with_write) {
        if (!block.persistent && !written_before(runs, r, b)) {
          return never_written(block);
        }
        visit.fetches.push_back({id, offset, transfer_bytes(block), now.first});
      }
      if (now.changed >= 0 && (block.persistent || read_later(object, now, b))) {
        visit.drains.push_back({id, offset, transfer_bytes(block), now.changed});
      }
    }
    return Status();
  }

  // Something writes the block in an earlier run, or later in the step: then this is the content of the last step.
  static bool written_before(const std::vector<Run>& runs, std::size_t r, std::size_t b) {
    const auto changes = [&](const Run& run) { return run.blocks[b].changed >= 0; };
    const auto from = runs.begin() + static_cast<std::ptrdiff_t>(r);
    return std::any_of(runs.begin(), from, changes) || std::any_of(from, runs.end(), changes);
  }

  // Whether the host's lane reads what this run left, or the next use after the run, in this step or the next, needs it.
  static bool read_later(const Object& object, const BlockRun& run, std::size_t b) {
    const UseAt* next = nullptr;
    for (const UseAt& use : *object.all) {
      if (!covers(use, b)) {
        continue;
      }
      if (use.lane == LaneKind::host_compute && use.task > run.changed && use.task < run.last) {
        return true;
      }
      if (next == nullptr || (next->task <= run.last && use.task > run.last)) {
        next = &use;
      }
    }
    return next != nullptr && next->access != Access::write;
  }

  const Workload& workload_;
  const Choice& choice_;
  const std::vector<ChainTask>& chain_;
  const UseTable& uses_;
  std::vector<bool> resident_;
  std::vector<bool> hosted_;
  Schedule out_;
};

}  // namespace

UseTable collect_uses(const Workload& workload,
                      const std::vector<ChainTask>& chain,
                      bool by_stage) {
  UseTable table;
  std::int32_t objects = 0;
  for (const Span& span : workload.spans) {
    table.first_object.push_back(objects);
    objects += span.per_micro_batch ? workload.micro_batches : 1;
  }
  table.first_object.push_back(objects);
  table.uses.resize(at(objects));
  std::int32_t unit_visit = 0;
  UnitId unit;
  std::int32_t stage = 0;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    // Tasks of no unit (turn, finish) interrupt nothing, and neither do those of the host's lane.
    const bool here = chain[i].unit.valid() && chain[i].lane == LaneKind::compute;
    if (here && (chain[i].unit != unit || (by_stage && chain[i].stage != stage))) {
      unit = chain[i].unit;
      stage = chain[i].stage;
      ++unit_visit;
    }
    table.unit_visit.push_back(unit_visit);
    for (std::size_t u = 0; u < chain[i].uses.size(); ++u) {
      const ChainUse& use = chain[i].uses[u];
      const std::int32_t object =
          table.first_object[use.span.index()] + std::max(use.micro_batch, 0);
      table.uses[at(object)].push_back({static_cast<std::int32_t>(i),
                                        static_cast<std::int32_t>(u),
                                        use.block,
                                        use.access,
                                        chain[i].lane});
    }
  }
  return table;
}

bool always_resident(const Workload& workload, SpanId span) {
  const std::vector<BlockId>& blocks = workload.spans[span.index()].blocks;
  return std::any_of(blocks.begin(), blocks.end(), [&](BlockId id) {
    const Block& block = workload.blocks[id.index()];
    return block.pinned || block.role == Role::batch || block.role == Role::statistic ||
           block.role == Role::kv_cache;
  });
}

bool is_mirrored(const Workload& workload, SpanId span) {
  const std::vector<BlockId>& blocks = workload.spans[span.index()].blocks;
  return std::any_of(blocks.begin(), blocks.end(), [&](BlockId id) {
    const Block& block = workload.blocks[id.index()];
    return !block.persistent && block.role != Role::kv_cache &&
           (block.pinned || block.role == Role::batch || block.role == Role::statistic);
  });
}

Result<Schedule> schedule(const Workload& workload,
                          const Choice& choice,
                          const std::vector<ChainTask>& chain,
                          const UseTable& uses) {
  Scheduler scheduler(workload, choice, chain, uses);
  scheduler.want_operands();
  for (std::size_t span = 0; span < workload.spans.size(); ++span) {
    PARBUCKLE_TRY(scheduler.plan_span(SpanId(span)));
  }
  scheduler.plan_scratch();
  return scheduler.take();
}

Result<std::vector<Visit>> visits_of_span(const Workload& workload,
                                          const Choice& choice,
                                          const std::vector<ChainTask>& chain,
                                          const UseTable& uses,
                                          SpanId span) {
  Scheduler scheduler(workload, choice, chain, uses);
  PARBUCKLE_TRY(scheduler.plan_span(span));
  return scheduler.take().visits;
}

}  // namespace parbuckle
