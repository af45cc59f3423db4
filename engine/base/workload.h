// What has to be computed and moved, before anything is decided. Plain data: the planner needs nothing else, and a
// workload can be written by hand or generated. It knows blocks, tasks and alternatives; it has never heard of attention.
//
// A *block* is what moves. A *span* is a run of blocks that tasks use as one contiguous range (most spans are one block).
// Blocks marked per_micro_batch exist once per micro-batch; their size follows the micro-batch's ShapeKey.
// Every block but the last of a span is a multiple of page_bytes long, so each can be transferred alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parbuckle/dtype.h"

#include "engine/base/ids.h"
#include "engine/base/program.h"

namespace parbuckle {

enum class Role {
  weight,
  frozen_weight,
  quantisation_scale,
  master_low,
  moment1,
  moment2,
  gradient,
  sparse_gradient,
  activation,  // saved inside a unit for its backward
  boundary,    // residual stream between units
  stream,      // gradient of the residual stream
  batch,       // ids, targets, positions, rotary table, step scalars
  kv_cache,
  statistic,  // losses, partial norms, head statistics: small, never leaves the host
  scratch
};
inline constexpr int role_count = static_cast<int>(Role::scratch) + 1;
std::string_view to_string(Role role);

enum class Access {
  read,
  write,
  update
};  // write: old contents are not needed; update: read and changed

struct Block {
  std::string name;  // "layer3.attention.weight", unique
  Role role = Role::weight;
  DType dtype = DType::f32;
  std::int64_t bytes = 0;      // of a block whose size is fixed
  std::int64_t row_bytes = 0;  // per_micro_batch: bytes = rows * row_bytes + bytes
  bool per_micro_batch = false;
  bool persistent =
      false;  // lives across steps and has a home; all others are born and die inside a step
  bool starts_zero = false;  // moments: first version is zeros, never read
  bool pinned = false;       // stays in compute memory always (statistics, scalars)
  SpanId span;
  std::int64_t span_offset = 0;  // bytes
  friend bool operator==(const Block&, const Block&) = default;
};

struct Span {
  std::string name;
  std::vector<BlockId> blocks;
  std::int64_t bytes = 0;  // sum of blocks; per_micro_batch: at the largest ShapeKey
  bool per_micro_batch = false;
  friend bool operator==(const Span&, const Span&) = default;
};

/// One operand of a task: a whole span, or one block of it.
struct Use {
  SpanId span;
  std::int32_t block = -1;  // position in Span::blocks; -1: the whole span
  Access access = Access::read;
  friend bool operator==(const Use&, const Use&) = default;
};

/// Programs that do the same at different ShapeKeys. programs[i] belongs to Workload::shapes[i]; families whose work
/// does not depend on the micro-batch (updates, norms) have one program.
struct Family {
  std::string name;
  std::vector<ProgramId> programs;
  std::vector<double> flops;          // like programs
  std::vector<double> traffic_bytes;  // like programs
  std::int64_t scratch_bytes = 0;     // largest of the programs
  friend bool operator==(const Family&, const Family&) = default;
};

/// uses[i] is bound to region i of the family's programs.
struct TaskTemplate {
  FamilyId family;
  std::vector<Use> uses;
  friend bool operator==(const TaskTemplate&, const TaskTemplate&) = default;
};

/// One way to compute a unit. Its tasks run once per micro-batch, template by template: layer-major order runs
/// template 0 for all micro-batches of a group, then template 1; micro-batch-major runs all templates of one micro-batch.
struct Alternative {
  std::string name;  // "keep", "recompute"
  std::vector<TaskTemplate> forward;
  std::vector<TaskTemplate> backward;
  friend bool operator==(const Alternative&, const Alternative&) = default;
};

/// The smallest thing that is placed and assigned. Units run in order forwards, in reverse order backwards.
/// gradient_begin runs once before the unit's first backward task of a step that uses what it changes, gradient_end once after the
/// last that changes what it uses.
struct Unit {
  std::string name;
  std::vector<Alternative> alternatives;
  std::vector<TaskTemplate> gradient_begin;
  std::vector<TaskTemplate> gradient_end;
  friend bool operator==(const Unit&, const Unit&) = default;
};

/// The optimizer's work on one block. `span`/`block` name the weight it changes; `task.uses` are weight, moments, gradient...
struct Update {
  SpanId span;
  std::int32_t block = 0;
  TaskTemplate task;
  friend bool operator==(const Update&, const Update&) = default;
};

enum class Phase { train, eval, prefill, decode };
std::string_view to_string(Phase phase);

/// One step (train) or one pass (other phases: forward only, no updates).
struct Workload {
  std::string name;
  Phase phase = Phase::train;
  std::int32_t micro_batches = 1;
  std::vector<ShapeKey>
      shapes;  // ascending; every micro-batch has one of these, plans hold for the last
  std::vector<Block> blocks;
  std::vector<Span> spans;
  std::vector<Family> families;
  std::vector<Unit> units;
  std::vector<TaskTemplate>
      begin;  // once, before everything (rotary tables are per micro-batch and belong to unit 0)
  std::vector<TaskTemplate> turn;  // window `fused` only: once, between forward and backward
  std::vector<TaskTemplate>
      finish;  // windows `after` and `lazy`: once, after the backward (global norm)
  std::vector<Update> updates;
  bool clipping = false;  // the norm must be known before any update: `fused` is not allowed
  std::string signature;  // text of the numeric signature; equal text, equal bits
  friend bool operator==(const Workload&, const Workload&) = default;
};

/// Bytes of `block` for a micro-batch of this shape (fixed blocks: their size).
std::int64_t block_bytes(const Block& block, const ShapeKey& shape);

}  // namespace parbuckle
