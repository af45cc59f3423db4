#include "offload/plan/validate.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <utility>

#include "parbuckle/units.h"

#include "offload/plan/validate_parts.h"

namespace parbuckle {
namespace validation {
namespace {

class Structure {
 public:
  Structure(const Workload& workload, const Plan& plan, Faults& faults)
      : workload_(workload), plan_(plan), faults_(faults) {}

  void run() {
    choice();
    for (std::size_t i = 0; i < plan_.allocations.size(); ++i) {
      allocation(plan_.allocations[i], "allocation " + std::to_string(i));
    }
    for (std::size_t i = 0; i < plan_.tasks.size(); ++i) {
      task(plan_.tasks[i], "task " + std::to_string(i));
    }
    for (std::size_t i = 0; i < plan_.transfers.size(); ++i) {
      transfer(plan_.transfers[i], "transfer " + std::to_string(i));
    }
    if (faults_.empty()) {
      homes();
      arena();
      sums();
    }
  }

 private:
  void expect(bool condition, const std::string& fault) {
    if (!condition) {
      faults_.push_back(fault);
    }
  }

  template <class Tag, class T>
  static bool in(Id<Tag> id, const std::vector<T>& items) {
    return id.valid() && id.index() < items.size();
  }

  static bool fits(std::int64_t offset, std::int64_t bytes, std::int64_t size) {
    return offset >= 0 && bytes >= 0 && offset <= size - bytes;
  }

  [[nodiscard]] std::int64_t largest(const Block& block) const {
    return block_bytes(block, workload_.shapes.back());
  }

  [[nodiscard]] Tier compute_tier() const {
    return plan_.device_arena_bytes > 0 ? Tier::device : Tier::host;
  }

  [[nodiscard]] Tier tier_of(const Task& task) const {
    return task.lane == LaneKind::host_compute ? Tier::host : compute_tier();
  }

  [[nodiscard]] std::int64_t arena_bytes(Tier tier) const {
    return tier == Tier::device ? plan_.device_arena_bytes : plan_.host_arena_bytes;
  }

  void choice() {
    const Choice& c = plan_.choice;
    expect(plan_.phase == workload_.phase, "plan: its phase is not the workload's");
    expect(c.group >= 1, "choice: group below 1");
    expect(c.alternative.size() == workload_.units.size(), "choice: one alternative per unit");
    for (std::size_t u = 0; u < std::min(c.alternative.size(), workload_.units.size()); ++u) {
      const std::int32_t a = c.alternative[u];
      expect(a >= 0 && static_cast<std::size_t>(a) < workload_.units[u].alternatives.size(),
             "choice: unit " + std::to_string(u) + " has no alternative " + std::to_string(a));
    }
    expect(!(workload_.clipping && c.window == Window::fused),
           "choice: window fused with clipping: the norm is not known before the updates");
    expect(c.host_updates.empty() || plan_.device_arena_bytes > 0,
           "choice: updates beside a device, and the host computes");
    expect(std::is_sorted(c.host_updates.begin(), c.host_updates.end()),
           "choice: host_updates is not in order");
  }

  void allocation(const Allocation& a, const std::string& name) {
    expect(a.offset % page_bytes == 0,
           name + " (" + a.what + "): offset is not a multiple of a page");
    expect(a.tier != Tier::nvme, name + " (" + a.what + "): not in a tier of memory");
    expect(fits(a.offset, a.bytes, arena_bytes(a.tier)),
           name + " (" + a.what + "): outside the arena");
    if (!a.span.valid()) {
      return;
    }
    if (!in(a.span, workload_.spans)) {
      faults_.push_back(name + ": no such span");
      return;
    }
    const Span& span = workload_.spans[a.span.index()];
    expect((a.micro_batch >= 0) == span.per_micro_batch && a.micro_batch < workload_.micro_batches,
           name + " (" + a.what + "): wrong micro-batch");
    if (a.block >= static_cast<std::int32_t>(span.blocks.size())) {
      faults_.push_back(name + " (" + a.what + "): no such block");
      return;
    }
    const std::int64_t need =
        a.block < 0
            ? span.bytes
            : largest(workload_.blocks[span.blocks[static_cast<std::size_t>(a.block)].index()]);
    expect(a.bytes >= need, name + " (" + a.what + "): shorter than what it holds");
  }

  void task(const Task& t, const std::string& name) {
    expect(in(t.family, workload_.families), name + ": no such family");
    expect(!t.unit.valid() || in(t.unit, workload_.units), name + ": no such unit");
    expect(t.micro_batch < workload_.micro_batches, name + ": no such micro-batch");
    lane(t, name);
    for (const TaskOperand& operand : t.operands) {
      if (!in(operand.allocation, plan_.allocations)) {
        faults_.push_back(name + ": an operand has no allocation");
        continue;
      }
      const Allocation& a = plan_.allocations[operand.allocation.index()];
      expect(fits(operand.offset, 1, a.bytes) && a.span.valid(),
             name + ": an operand lies outside its allocation");
      expect(a.tier == tier_of(t), name + ": an operand is not in the memory of its lane");
    }
    for (const TransferId id : t.waits) {
      expect(in(id, plan_.transfers), name + ": waits for a transfer that does not exist");
    }
    if (in(t.family, workload_.families)) {
      scratch(t, name);
    }
  }

  void lane(const Task& t, const std::string& name) {
    const bool on_host = t.lane == LaneKind::host_compute;
    expect(on_host || t.lane == LaneKind::compute, name + ": not on a lane that runs tasks");
    expect(!on_host || (t.kind == TaskKind::update && plan_.device_arena_bytes > 0),
           name + ": on the host's lane, and no update beside a device");
    const auto others = static_cast<std::int32_t>(plan_.tasks.size());
    expect(t.after_task < others &&
               (t.after_task < 0 ||
                plan_.tasks[static_cast<std::size_t>(t.after_task)].lane != t.lane),
           name + ": after_task is no task of the other lane");
    // Which lane updates a weight is the choice's.
    for (const TaskOperand& operand : t.operands) {
      if (t.kind == TaskKind::update && in(operand.allocation, plan_.allocations) &&
          operand.access != Access::read) {
        const Allocation& a = plan_.allocations[operand.allocation.index()];
        const std::vector<SpanId>& chosen = plan_.choice.host_updates;
        expect(a.role != Role::weight ||
                   std::binary_search(chosen.begin(), chosen.end(), a.span) == on_host,
               name + ": not on the lane that was chosen for " + a.what);
      }
    }
  }

  void scratch(const Task& t, const std::string& name) {
    const std::int64_t need = workload_.families[t.family.index()].scratch_bytes;
    expect(t.scratch_bytes >= need, name + ": scratch is too small");
    expect(t.scratch_offset % page_bytes == 0 &&
               fits(t.scratch_offset, t.scratch_bytes, arena_bytes(tier_of(t))),
           name + ": scratch outside the arena");
    const auto holds = [&](const Allocation& a) {
      return !a.span.valid() && a.tier == tier_of(t) && a.offset <= t.scratch_offset &&
             a.offset + a.bytes >= t.scratch_offset + t.scratch_bytes;
    };
    expect(t.scratch_bytes == 0 ||
               std::any_of(plan_.allocations.begin(), plan_.allocations.end(), holds),
           name + ": scratch without an allocation");
  }

  void transfer(const Transfer& t, const std::string& name) {
    if (!in(t.block, workload_.blocks) || !in(t.allocation, plan_.allocations)) {
      faults_.push_back(name + ": no such block or allocation");
      return;
    }
    const Block& block = workload_.blocks[t.block.index()];
    const bool link = t.lane == LaneKind::h2d || t.lane == LaneKind::d2h;
    expect(link || t.lane == LaneKind::nvme_read || t.lane == LaneKind::nvme_write,
           name + " (" + block.name + "): not a lane that moves blocks");
    expect(t.bytes == round_up(largest(block), page_bytes),
           name + " (" + block.name + "): wrong number of bytes");
    keeps(t, t.allocation, t.offset, link ? Tier::device : Tier::host, name);
    if (link) {
      keeps(t, t.host, t.host_offset, Tier::host, name);
    }
    waits_for(t.after_task, LaneKind::compute, name);
    waits_for(t.after_host_task, LaneKind::host_compute, name);
    for (const TransferId id : t.after_transfers) {
      expect(in(id, plan_.transfers), name + ": waits for a transfer that does not exist");
    }
  }

  void waits_for(std::int32_t task, LaneKind lane, const std::string& name) {
    expect(task < static_cast<std::int32_t>(plan_.tasks.size()) &&
               (task < 0 || plan_.tasks[static_cast<std::size_t>(task)].lane == lane),
           name + ": waits for a task that does not exist on that lane");
  }

  // The allocation is of that tier and keeps the transfer's block at `offset`.
  void keeps(const Transfer& t,
             AllocationId allocation,
             std::int64_t offset,
             Tier tier,
             const std::string& transfer) {
    const Block& block = workload_.blocks[t.block.index()];
    const std::string name = transfer + " (" + block.name + ")";
    if (!in(allocation, plan_.allocations)) {
      faults_.push_back(name + ": no such allocation");
      return;
    }
    const Allocation& a = plan_.allocations[allocation.index()];
    expect(a.tier == tier, name + ": its allocation is of another tier");
    expect(a.span == block.span && a.micro_batch == t.micro_batch,
           name + ": its allocation is of another span");
    const bool right_place =
        a.block < 0
            ? offset == block.span_offset
            : offset == 0 && a.span.valid() &&
                  workload_.spans[a.span.index()].blocks[static_cast<std::size_t>(a.block)] ==
                      t.block;
    expect(right_place && fits(offset, t.bytes, a.bytes),
           name + ": not where the allocation keeps that block");
  }

  void homes() {
    std::vector<BlockId> persistent;
    for (std::size_t b = 0; b < workload_.blocks.size(); ++b) {
      if (workload_.blocks[b].persistent) {
        persistent.push_back(BlockId(b));
      }
    }
    expect(persistent.size() == plan_.homes.size(), "homes: not one per persistent block");
    for (std::size_t i = 0; i < std::min(persistent.size(), plan_.homes.size()); ++i) {
      const Home& home = plan_.homes[i];
      const Block& block = workload_.blocks[persistent[i].index()];
      expect(home.block == persistent[i], "homes: not in block order at " + block.name);
      if (home.tier == Tier::nvme) {
        continue;
      }
      if (!in(home.allocation, plan_.allocations)) {
        faults_.push_back("home of " + block.name + ": no such allocation");
        continue;
      }
      const Allocation& a = plan_.allocations[home.allocation.index()];
      expect(a.resident && a.tier == home.tier && a.span == block.span && a.block < 0 &&
                 home.offset == block.span_offset,
             "home of " + block.name + ": its allocation is not resident or not of its span");
    }
  }

  void arena() {
    for (const Tier tier : {Tier::device, Tier::host}) {
      std::int64_t end = 0;
      for (const Allocation& a : plan_.allocations) {
        end = a.tier == tier ? std::max(end, a.offset + a.bytes) : end;
      }
      expect(end == arena_bytes(tier),
             "plan: the arena of the " + std::string(tier == Tier::device ? "device" : "host") +
                 " does not end with its last allocation");
    }
    const Budgets& b = plan_.budgets;
    expect(b.device_bytes < 0 || plan_.device_arena_bytes <= b.device_bytes,
           "plan: the device's arena exceeds its budget");
    expect(b.host_bytes < 0 || plan_.host_arena_bytes + b.host_reserve_bytes <= b.host_bytes,
           "plan: arena and reserve exceed the host budget");
    expect(b.nvme_bytes < 0 || plan_.nvme_pool_bytes <= b.nvme_bytes,
           "plan: the pool exceeds the NVMe budget");
  }

  void sums() {
    std::array<RoleBytes, role_count> found{};
    std::set<std::pair<BlockId, std::int32_t>> stored;
    for (const Transfer& t : plan_.transfers) {
      RoleBytes& role = found[static_cast<std::size_t>(workload_.blocks[t.block.index()].role)];
      moved(role, t.lane) += t.bytes;
      if (t.lane == LaneKind::nvme_read || t.lane == LaneKind::nvme_write) {
        stored.insert({t.block, t.micro_batch});
      }
    }
    for (const Home& home : plan_.homes) {
      if (home.tier == Tier::nvme) {
        stored.insert({home.block, -1});
      }
    }
    std::int64_t pool = 0;
    for (const auto& [block, micro_batch] : stored) {
      pool += round_up(largest(workload_.blocks[block.index()]), page_bytes);
    }
    expect(pool == plan_.nvme_pool_bytes, "plan: nvme_pool_bytes is not the sum of what it stores");
    std::array<RoleBytes, role_count> claimed{};
    for (const RoleBytes& role : plan_.bytes) {
      claimed[static_cast<std::size_t>(role.role)] = role;
    }
    for (std::size_t r = 0; r < found.size(); ++r) {
      expect(found[r].read == claimed[r].read && found[r].written == claimed[r].written &&
                 found[r].down == claimed[r].down && found[r].up == claimed[r].up,
             "plan: bytes of role " + std::string(to_string(static_cast<Role>(r))) +
                 " are not those of its transfers");
    }
  }

  const Workload& workload_;
  const Plan& plan_;
  Faults& faults_;
};

}  // namespace

void check_structure(const Workload& workload, const Plan& plan, Faults& faults) {
  Structure(workload, plan, faults).run();
}

}  // namespace validation

std::vector<std::string> validate(const Workload& workload, const Plan& plan) {
  validation::Faults faults;
  validation::check_structure(workload, plan, faults);
  if (faults.empty()) {
    const validation::Templates templates = validation::check_tasks(workload, plan, faults);
    if (std::find(templates.begin(), templates.end(), nullptr) == templates.end()) {
      validation::check_memory(workload, plan, templates, faults);
    }
  }
  return faults;
}

}  // namespace parbuckle
