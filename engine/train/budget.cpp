#include "engine/train/budget.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

// Measured as peak resident memory of runs with an arena of known size, rounded up; see tests/integration/budget_test. SmolLM2-135M
// on two cores takes 36 to 38 MiB beside its arena, whatever the budget, of the 47 MiB that these figures declare.
constexpr std::int64_t base_bytes =
    28 * mib;  // code, libraries, stacks, I/O threads, staging of load and save
constexpr std::int64_t bytes_per_token = 300;  // vocabulary, merges and their tables
constexpr std::int64_t bytes_per_primitive = 170 * kib;
constexpr std::int64_t bytes_per_op = 1 * kib;    // op call, operand views, shapes
constexpr std::int64_t bytes_per_task = 2 * kib;  // task, operands, waits, timeline

const TierCapacity* capacity(const Hardware& hardware, Tier tier) {
  const auto found = std::find_if(hardware.tiers.begin(),
                                  hardware.tiers.end(),
                                  [&](const TierCapacity& t) { return t.tier == tier; });
  return found == hardware.tiers.end() ? nullptr : &*found;
}

bool is_product(OpKind kind) {
  return kind == OpKind::linear_forward || kind == OpKind::linear_backward_input ||
         kind == OpKind::linear_backward_weight || kind == OpKind::head_loss ||
         kind == OpKind::head_stats || kind == OpKind::head_grad;
}

}  // namespace

std::int64_t host_reserve(const ReserveFacts& facts) {
  const std::int64_t bytes =
      base_bytes + facts.vocabulary * bytes_per_token + facts.primitives * bytes_per_primitive +
      facts.program_ops * bytes_per_op + facts.planned_tasks * bytes_per_task;
  return round_up(bytes, mib);
}

ReserveFacts reserve_facts(const std::vector<const Workload*>& workloads,
                           const std::vector<const std::vector<Program>*>& programs,
                           std::int64_t vocabulary) {
  ReserveFacts facts{.vocabulary = vocabulary};
  std::set<std::tuple<OpKind, std::int64_t, std::int64_t, std::int64_t>> products;
  for (const auto* list : programs) {
    for (const Program& program : *list) {
      facts.program_ops += static_cast<std::int64_t>(program.ops.size());
      for (const OpCall& op : program.ops) {
        if (is_product(op.kind)) {
          products.insert(
              {op.kind, op.operands[0].shape.d0, op.operands[0].shape.d1, op.operands[1].shape.d0});
        }
      }
    }
  }
  facts.primitives = static_cast<std::int64_t>(products.size());
  for (const Workload* workload : workloads) {
    for (const Unit& unit : workload->units) {
      const Alternative& first = unit.alternatives.front();
      facts.planned_tasks +=
          static_cast<std::int64_t>(first.forward.size() + first.backward.size()) *
          workload->micro_batches;
    }
    facts.planned_tasks += static_cast<std::int64_t>(workload->updates.size());
  }
  return facts;
}

Result<Budgets> resolve_budgets(const MemoryConfig& config,
                                const Hardware& hardware,
                                std::int64_t reserve,
                                std::string* note) {
  Budgets budgets{.host_reserve_bytes = reserve, .nvme_bytes = 0};
  if (const TierCapacity* const device = capacity(hardware, Tier::device)) {
    budgets.device_bytes = device->free_bytes;
  }
  const TierCapacity* const host = capacity(hardware, Tier::host);
  if (!config.host_memory.empty()) {
    PARBUCKLE_ASSIGN(budgets.host_bytes, parse_size(config.host_memory));
  } else if (host != nullptr) {
    budgets.host_bytes = host->free_bytes - std::max(512 * mib, host->free_bytes / 20);
    *note = "memory budget " + format_size(budgets.host_bytes) + ": " +
            format_size(host->free_bytes) + " free (" + host->limited_by +
            ") less a margin; --host-memory sets another";
  }
  if (config.nvme_path.empty()) {
    if (!config.nvme.empty()) {
      return invalid("--nvme needs --nvme-path, a folder on a drive");
    }
    return budgets;
  }
  budgets.nvme_bytes = -1;
  if (!config.nvme.empty()) {
    PARBUCKLE_ASSIGN(budgets.nvme_bytes, parse_size(config.nvme));
  }
  const TierCapacity* const nvme = capacity(hardware, Tier::nvme);
  if (nvme != nullptr && (budgets.nvme_bytes < 0 || nvme->free_bytes < budgets.nvme_bytes)) {
    budgets.nvme_bytes = nvme->free_bytes;
  }
  return budgets;
}

}  // namespace parbuckle
