// From what the user said and what the machine has to Budgets; and the part of the host budget that no arena may use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parbuckle/config.h"
#include "parbuckle/status.h"

#include "engine/base/hardware.h"
#include "engine/base/workload.h"

namespace parbuckle {

/// What the process holds outside its arenas: code and libraries, thread stacks, I/O staging, the tokenizer, plan and
/// programs, and the primitives of the matrix library. Declared before the plan, checked against the measured peak in tests.
struct ReserveFacts {
  std::int64_t vocabulary = 0;     // tokens of the tokenizer; 0: none is loaded
  std::int64_t primitives = 0;     // distinct matrix products that will be prepared
  std::int64_t program_ops = 0;    // op calls of all programs
  std::int64_t planned_tasks = 0;  // tasks of a step
};
std::int64_t host_reserve(const ReserveFacts& facts);

/// Counts what host_reserve() asks for.
ReserveFacts reserve_facts(const std::vector<const Workload*>& workloads,
                           const std::vector<const std::vector<Program>*>& programs,
                           std::int64_t vocabulary);

/// Budgets of a run. Without --host-memory: what `hardware` has free, less a margin of 5 % and at least 512 MiB; `note` then says
/// what was chosen and which limit rules. Without --nvme-path the drive's budget is 0.
Result<Budgets> resolve_budgets(const MemoryConfig& config,
                                const Hardware& hardware,
                                std::int64_t reserve,
                                std::string* note);

}  // namespace parbuckle
