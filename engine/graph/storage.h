// Adds spans and their blocks to a workload.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/workload.h"

namespace parbuckle {

/// What is the same for all blocks of a span.
struct Storage {
  Role role = Role::weight;
  DType dtype = DType::f32;
  bool persistent = false;
  bool starts_zero = false;
  bool pinned = false;
};

/// `bytes`, padded to a whole page and cut at multiples of `block_bytes`, itself whole pages.
SpanId add_span(Workload& workload,
                const std::string& name,
                std::int64_t bytes,
                std::int64_t block_bytes,
                Storage storage);

/// One block for each (name, bytes), each padded to whole pages.
SpanId add_span_of(Workload& workload,
                   const std::string& name,
                   const std::vector<std::pair<std::string, std::int64_t>>& blocks,
                   Storage storage);

/// Exists once per micro-batch: rows * row_bytes + fixed_bytes, in one block.
SpanId add_token_span(Workload& workload,
                      const std::string& name,
                      std::int64_t row_bytes,
                      std::int64_t fixed_bytes,
                      Storage storage);

}  // namespace parbuckle
