// Plans for a given choice, without a search.
#pragma once

#include <gtest/gtest.h>

#include "offload/plan/assemble.h"
#include "offload/plan/validate.h"

namespace parbuckle {

/// Nothing resident but what always is, first alternative everywhere, everything else spilled.
inline Choice streamed(const Workload& workload, Window window) {
  Choice choice;
  choice.group = workload.micro_batches;
  choice.window = window;
  choice.alternative.assign(workload.units.size(), 0);
  choice.activation.assign(workload.units.size(), WaitsIn::nvme);
  choice.boundary = WaitsIn::nvme;
  choice.gradient = WaitsIn::nvme;
  choice.prefetch = 0;
  return choice;
}

/// All persistent spans and everything else in memory.
inline Choice all_resident(const Workload& workload, Window window) {
  Choice choice = streamed(workload, window);
  choice.activation.assign(workload.units.size(), WaitsIn::compute);
  choice.boundary = WaitsIn::compute;
  choice.gradient = WaitsIn::compute;
  for (std::size_t s = 0; s < workload.spans.size(); ++s) {
    if (workload.blocks[workload.spans[s].blocks.front().index()].persistent) {
      choice.resident.push_back(SpanId(s));
    }
  }
  return choice;
}

/// capacity 0: the tightest placement, nothing fetched ahead.
inline Plan draft(const Workload& workload, const Choice& choice, std::int64_t capacity = 0) {
  const std::vector<ChainTask> chain = expand(workload, choice);
  const UseTable uses = collect_uses(workload, chain, choice.by_stage);
  const Result<Schedule> made = schedule(workload, choice, chain, uses);
  EXPECT_TRUE(made.ok()) << made.status().message();
  const auto tasks = static_cast<std::int32_t>(chain.size());
  const std::int64_t ahead = choice.prefetch * visit_traffic_bytes(*made, uses);
  const Placement placement =
      capacity > 0 ? place(*made, tasks, capacity, ahead) : place_tight(*made);
  return assemble(workload, choice, chain, *made, placement);
}

inline std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\n";
  }
  return text;
}

}  // namespace parbuckle
