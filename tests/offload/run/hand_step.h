// The smallest step that moves a block: reads a weight of two pages from the drive, one task changes it and counts, it is written back.
#pragma once

#include <vector>

#include "parbuckle/units.h"

#include "engine/base/plan.h"
#include "engine/base/program.h"
#include "engine/base/workload.h"

namespace parbuckle {

struct HandStep {
  static constexpr std::size_t weight = 0;  // block, span and allocation
  static constexpr std::size_t count = 1;

  Workload workload;
  std::vector<Program> programs;
  Plan plan;
};

inline HandStep hand_step() {
  HandStep step;
  Workload& w = step.workload;
  w.name = "by hand";
  w.shapes = {{64, 0}};
  w.blocks = {
      {.name = "weight", .bytes = 2 * page_bytes, .persistent = true, .span = SpanId(0L)},
      {.name = "count", .role = Role::statistic, .bytes = 64, .pinned = true, .span = SpanId(1L)}};
  w.spans = {{"weight", {BlockId(0L)}, 2 * page_bytes}, {"count", {BlockId(1L)}, 64}};
  w.families = {{.name = "change",
                 .programs = {ProgramId(0L)},
                 .flops = {1},
                 .traffic_bytes = {0},
                 .scratch_bytes = 128}};
  step.programs = {{.name = "change",
                    .key = w.shapes[0],
                    .region_bytes = {2 * page_bytes, 64},
                    .scratch_bytes = 128}};

  Plan& p = step.plan;
  p.workload = w.name;
  p.host_arena_bytes = 4 * page_bytes;
  p.allocations = {{.what = "weight",
                    .role = Role::weight,
                    .span = SpanId(0L),
                    .offset = page_bytes,
                    .bytes = 2 * page_bytes},
                   {.what = "count",
                    .role = Role::statistic,
                    .span = SpanId(1L),
                    .bytes = 64,
                    .resident = true}};
  p.tasks = {
      {.kind = TaskKind::update,
       .family = FamilyId(0L),
       .operands = {{AllocationId(0L), 0, Access::update}, {AllocationId(1L), 0, Access::update}},
       .scratch_offset = 3 * page_bytes,
       .scratch_bytes = 128,
       .waits = {TransferId(0L)}}};
  const Transfer read{.lane = LaneKind::nvme_read,
                      .block = BlockId(0L),
                      .allocation = AllocationId(0L),
                      .bytes = 2 * page_bytes};
  Transfer write = read;
  write.lane = LaneKind::nvme_write;
  write.after_task = 0;
  p.transfers = {read, write};
  p.homes = {{.block = BlockId(0L), .tier = Tier::nvme}};
  return step;
}

}  // namespace parbuckle
