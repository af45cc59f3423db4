// A Program is what a task runs: a flat list of op calls over regions whose layout was fixed at compile time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/op.h"

namespace parbuckle {

/// The programs of a family differ only in this: rows of a micro-batch (tokens, padded to a multiple of 64;
/// 1 when decoding) and, with a key/value cache, the rows the cache has room for.
struct ShapeKey {
  std::int64_t rows = 0;
  std::int64_t cache_rows = 0;
  friend auto operator<=>(const ShapeKey&, const ShapeKey&) = default;
};

/// A typed view into a region: region index (scratch is the last region), byte offset, shape.
struct OperandRef {
  std::int32_t region = 0;
  std::int64_t offset = 0;
  DType dtype = DType::f32;
  Shape shape;
  friend bool operator==(const OperandRef&, const OperandRef&) = default;
};

struct OpCall {
  OpKind kind = OpKind::copy;
  Attributes attributes;
  std::vector<OperandRef> operands;
  std::int64_t workspace_offset = 0;  // in the scratch region
  friend bool operator==(const OpCall&, const OpCall&) = default;
};

/// Regions are bound by the caller: region i < region_bytes.size() is the i-th use of the task; one more region,
/// index region_bytes.size(), is the task's scratch.
struct Program {
  std::string name;  // family name, "attention.forward"
  ShapeKey key;
  std::vector<std::int64_t> region_bytes;  // the least each bound region must hold
  std::vector<OpCall> ops;
  std::int64_t scratch_bytes = 0;  // temporaries and op workspaces, 64-byte aligned offsets
  double flops = 0;  // multiplications and additions of matrix products, and attention
  double traffic_bytes =
      0;  // bytes of memory the ops read and write, for ops no FLOP rate describes
  friend bool operator==(const Program&, const Program&) = default;
};

}  // namespace parbuckle
