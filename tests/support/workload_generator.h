// Workloads without a model: transformer-shaped training steps in the form that lowering gives them, for the tests of everything
// that plans or executes. Sizes are free; `smollm2_135m()` has those of the real model.
#pragma once

#include <cstdint>
#include <random>

#include "engine/base/hardware.h"
#include "engine/base/workload.h"

namespace parbuckle {

struct TransformerSizes {
  std::int32_t layers = 2;
  std::int64_t width = 64;         // H
  std::int64_t kv_width = 32;      // K
  std::int64_t intermediate = 96;  // F
  std::int64_t heads = 2;
  std::int64_t vocabulary = 256;
  std::int64_t block_elements = 4 * 1024 * 1024;  // the most one block holds
  std::int64_t rows = 64;                         // of a micro-batch
  std::int32_t micro_batches = 2;
  bool tied = true;          // the head reads the embedding table
  bool clipping = true;      // no fused window
  bool staged_head = false;  // statistics, then gradients, of one table part after the other
  Phase phase = Phase::train;
};

/// Units: embedding (one template per table part), L x (attention, mlp) with alternatives keep and recompute, head with
/// all table parts in one task or, staged, a forward and a backward task for each.
Workload make_workload(const TransformerSizes& sizes);

TransformerSizes smollm2_135m(std::int32_t micro_batches, std::int64_t rows);

/// Small sizes whose spans have one to a few blocks.
TransformerSizes random_sizes(std::mt19937& random);

/// Two cores and one drive: 200 GFLOP/s, 12 GB/s memory, 0.45 GB/s read, 0.40 written, 0.88 together.
Hardware small_machine();

/// The same beside a device of 1 TFLOP/s with memory of its own: 1 GB/s each way over the link. The host only moves bytes.
Hardware device_machine();

/// And with cores of the host that compute beside the device.
Hardware hetero_machine();

}  // namespace parbuckle
