// What one step reads: its micro-batches, flat and without padding between sequences.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/data/example.h"

namespace parbuckle {

/// The row counts of micro-batches are multiples of this, so that few program shapes serve all.
inline constexpr std::int64_t row_multiple = 64;

/// All vectors have `rows` entries: the sequences one after the other, then padding up to a multiple of row_multiple. A
/// padding row has -1 everywhere.
struct MicroBatch {
  std::int64_t rows = 0;
  std::int64_t tokens = 0;  // rows that are not padding
  std::int64_t targets = 0;
  std::int64_t sequences = 0;
  std::vector<std::int32_t> token_ids;
  std::vector<std::int32_t> positions;      // from 0 in every sequence
  std::vector<std::int32_t> segment_begin;  // row where the sequence of this row begins
  std::vector<std::int32_t> target_ids;     // label of the next token of the sequence, or -1
  std::vector<std::int32_t> slots;          // place of the token in StepBatch::touched
  friend bool operator==(const MicroBatch&, const MicroBatch&) = default;
};

struct StepBatch {
  std::int64_t step = 0;   // from 0
  std::int64_t epoch = 0;  // from 0
  std::int64_t tokens = 0;
  std::int64_t targets = 0;
  std::vector<MicroBatch> micro_batches;
  std::vector<std::int32_t> touched;  // token ids of the step, ascending, each once
  friend bool operator==(const StepBatch&, const StepBatch&) = default;
};

/// Sequences laid out in one micro-batch; slots are left empty.
MicroBatch lay_out(std::span<const Example> examples);

/// Sums the counts, collects the touched ids and fills the slots.
void finish_step(StepBatch& step);

}  // namespace parbuckle
