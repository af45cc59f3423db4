// From a model to what the planner and the executor take: a Workload and its Programs, where each parameter's bytes
// lie, and which blocks the trainer fills and reads.
//
// Order of a train step, and who writes what when (M micro-batches, windows of plan.h):
//   before      the trainer fills `batch` of every micro-batch, `step`, `touched`
//   begin       partial sums are zeroed
//   updates     window lazy: those of the step before, each ahead of its unit's forward; they read `update` and
//               `update_touched`, which still hold that step's values
//   forward     unit by unit; unit 0 also fills `rotary`
//   turn        window fused: `update` and `update_touched` become this step's
//   backward    per unit: gradient_begin, its tasks, gradient_end; window fused: its updates, once every unit that adds
//               to the gradient is done (a tied table: after unit 0)
//   finish      windows after and lazy: norm of the partial sums, `update` and `update_touched` become this step's
//   updates     window after
// So whatever is deferred to the next step finds its scalars and ids in `update` and `update_touched`: they change only
// at the turn or the finish, when nothing of the step before is left to do; `step` and `touched` change between steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/graph.h"
#include "engine/base/workload.h"
#include "engine/model/config.h"

namespace parbuckle {

/// Elements of the largest block; larger tensors are cut.
inline constexpr std::int64_t largest_block_elements = std::int64_t{4} << 20;
/// 1 KiB x V <= 64 MiB: logits of 256 rows over the whole vocabulary fit a fixed scratch, one pass over the head is enough.
inline constexpr std::int64_t one_pass_vocabulary = 65536;
/// Elements behind one partial sum of squares.
inline constexpr std::int64_t square_sum_chunk = 65536;

struct LowerOptions {
  Phase phase = Phase::train;
  std::int32_t micro_batches = 1;
  std::vector<ShapeKey> shapes;  // ascending; with a key/value cache all have the same cache_rows
  bool clipping = false;         // max_norm > 0
  std::int64_t one_pass_vocabulary = parbuckle::one_pass_vocabulary;  // tests lower it
  std::int64_t block_elements = largest_block_elements;  // tests lower it; multiple of 1024
  std::int64_t logit_rows = 1;  // prefill, decode: rows of a pass whose logits are wanted
};

/// A run of a parameter's elements inside one block.
struct ParameterPiece {
  BlockId weight;
  BlockId moment1;  // train only
  BlockId moment2;  // train only
  BlockId
      gradient;  // dense gradient at the same offset; invalid outside train and for an untied embedding
  std::int64_t offset = 0;  // bytes from the beginning of each of these blocks
  std::int64_t first = 0;   // element of the parameter
  std::int64_t count = 0;   // elements
  friend bool operator==(const ParameterPiece&, const ParameterPiece&) = default;
};

struct ParameterPlacement {
  std::string name;
  std::vector<ParameterPiece> pieces;  // in element order, covering the parameter once
  friend bool operator==(const ParameterPlacement&, const ParameterPlacement&) = default;
};

/// Columns of a micro-batch's `batch` block, each i32[rows]. Padding rows hold -1 everywhere.
enum class BatchColumn { tokens, positions, segment_begin, targets, slots };
inline constexpr int batch_column_count = static_cast<int>(BatchColumn::slots) + 1;
/// Byte offset of a column in the batch block of a micro-batch with `rows` rows.
std::int64_t batch_column_offset(BatchColumn column, std::int64_t rows);

/// Spans that the trainer fills or reads itself. All are pinned and outside every transfer. Invalid where a phase or a
/// model has no use for it.
struct StepBindings {
  SpanId batch;  // per micro-batch, see BatchColumn; written before each step
  SpanId
      inverse_frequencies;  // f32[head_dim / 2], inverse_frequencies(config); written before each step
  SpanId step;              // StepScalars; written before each step (train)
  SpanId touched;           // TouchedRows + i32[touched_capacity]; written before each step (train)
  SpanId
      selected;  // i32[logit_rows]: row of the pass behind each row of logits; written before each pass (prefill, decode)
  SpanId loss;   // per micro-batch, f64[2]: sum, targets; read after each step (train, eval)
  SpanId update;    // UpdateScalars; read after each step (train)
  SpanId partials;  // f64: partial sums of squares, all finite or the gradient is not (train)
  SpanId logits;    // f32, see logit_offset; read after each pass (prefill, decode)
  std::int64_t touched_capacity = 0;           // U: rows of the sparse gradient
  std::int64_t partial_count = 0;              // f64 in partials
  std::vector<std::int64_t> logit_rows_begin;  // first vocabulary id of each table part, then V
  friend bool operator==(const StepBindings&, const StepBindings&) = default;
};

struct Lowered {
  Graph graph;  // with its backward
  Workload workload;
  std::vector<Program> programs;
  std::vector<ParameterPlacement> parameters;  // in the order of parameters(config)
  StepBindings bindings;
};

/// `device.prepare` is asked for the workspace of every op. Fails (invalid_argument) on shapes or options that make no
/// workload, and passes on what the device refuses.
Result<Lowered> lower(const ModelConfig& config,
                      const LowerOptions& options,
                      const OpTable& device);

/// Byte offset in the `logits` block of row `row` of the pass and vocabulary id `id`: part by part, (logit_rows, ids of the part)
/// each; with one row this is plain order of ids.
std::int64_t logit_offset(const StepBindings& bindings,
                          std::int64_t logit_rows,
                          std::int64_t row,
                          std::int64_t id);

}  // namespace parbuckle
