// What the planner may choose between, before memory decides.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/plan.h"
#include "engine/base/workload.h"

namespace parbuckle {

/// Of all units: hold what they save in memory, move it to the drive and back, or compute it again.
enum class ActivationPolicy { keep, spill, recompute };
std::string_view to_string(ActivationPolicy policy);

/// Choices taken away from the planner; what is empty it decides itself.
struct Forced {
  std::optional<std::int32_t> group;  // 1 micro-batch-major, Workload::micro_batches layer-major
  std::optional<Window> window;
  std::optional<ActivationPolicy> activations;
  std::optional<WaitsIn> boundary;
  std::optional<WaitsIn> gradient;
  std::optional<std::int32_t> prefetch;
  std::optional<LaneKind> updates;  // of all weights: compute or, beside a device, host_compute
  bool pin = true;                  // false: nothing that can be streamed stays in memory
};

/// Fails where a forced choice does not exist for this workload (fused with clipping, group out of range).
Status check_forced(const Workload& workload, const Forced& forced);

/// One policy for all units, nothing pinned, gradients streamed unless forced; every combination, in a fixed order. What leaves
/// compute memory goes to one of `lower` (all of it to the same).
/// REQUIRES: check_forced(workload, forced).ok(), lower is not empty.
std::vector<Choice> base_choices(const Workload& workload,
                                 const Forced& forced,
                                 const std::vector<WaitsIn>& lower);

/// Weights that the host's lane could update beside a device: their updates touch state, gradients and what the host has a
/// mirror of, nothing else.
std::vector<SpanId> host_updatable(const Workload& workload);

/// Some unit has a backward of several stages, such as an output layer whose table is cut into parts: it may leave memory part by
/// part (Choice::by_stage), at the price of reading the table again in the backward.
bool has_stages(const Workload& workload);

/// Where `choice` puts what leaves compute memory.
WaitsIn lower_place(const Choice& choice);

/// Makes unit `unit` of `choice` follow `policy`, spilling to `lower`; false where the unit cannot (nothing saved, no such
/// alternative).
bool set_policy(const Workload& workload,
                std::size_t unit,
                ActivationPolicy policy,
                WaitsIn lower,
                Choice& choice);

/// What unit `unit` does in `choice`; nothing for units that save nothing.
std::optional<ActivationPolicy> policy_of(const Workload& workload,
                                          std::size_t unit,
                                          const Choice& choice);

}  // namespace parbuckle
