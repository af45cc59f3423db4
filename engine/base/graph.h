// What a model computes: values, and the ops between them, unit by unit. A model builder (engine/model) writes the forward
// ops; autodiff (engine/graph) appends the backward ones. Ops have the kinds and the operand order of op.h.
//
// A value is written once, except that ops marked "+=" in op.h update it in place; what a later op reads is its final state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parbuckle/dtype.h"

#include "engine/base/ids.h"
#include "engine/base/op.h"

namespace parbuckle {

enum class ValueRole {
  batch,      // a column of the micro-batch, or computed from columns alone (rotary table)
  parameter,  // in the order of parameters()
  gradient,   // of one unit's use of a parameter
  residual,   // input and output of units
  stream,     // gradient of the residual stream, one value for all units
  inner,      // lives inside one unit
  scalars,    // StepScalars, constants
  statistic   // losses, softmax statistics
};

struct GraphValue {
  std::string name;  // "layer0.attention.q"; parameters: their name in the model's folder
  ValueRole role = ValueRole::inner;
  DType dtype = DType::f32;
  bool per_token = false;  // one row per token of the micro-batch; else `rows` rows
  std::int64_t rows = 0;
  std::int64_t columns = 1;
  bool vector = false;  // parameters: of one dimension, never decayed
  ValueId gradient_of;  // valid: this is the gradient of that value
  friend bool operator==(const GraphValue&, const GraphValue&) = default;
};

/// A value as an op sees it: heads > 1 views (R, heads * D) as (R * heads, D).
struct ValueUse {
  ValueId value;
  std::int32_t heads = 1;
  friend bool operator==(const ValueUse&, const ValueUse&) = default;
};

struct GraphOp {
  OpKind kind = OpKind::copy;
  Attributes attributes;
  std::vector<ValueUse> operands;
  friend bool operator==(const GraphOp&, const GraphOp&) = default;
};

enum class UnitKind { embedding, layer, head };

struct GraphUnit {
  std::string name;    // "layer0.attention", unique
  std::string family;  // "attention": names of programs begin with it
  UnitKind kind = UnitKind::layer;
  ValueId input;                    // residual; invalid for the embedding
  ValueId output;                   // residual; invalid for the head
  std::vector<ValueId> parameters;  // in storage order
  std::vector<ValueId> gradients;   // by autodiff, parallel to parameters
  std::vector<GraphOp> forward;
  std::vector<GraphOp> backward;  // by autodiff
  friend bool operator==(const GraphUnit&, const GraphUnit&) = default;
};

/// What enters and leaves a micro-batch.
struct BatchValues {
  ValueId tokens;
  ValueId positions;
  ValueId segment_begin;
  ValueId targets;
  ValueId slots;
  ValueId inverse_frequencies;  // invalid without rotary positions
  ValueId rotary;               // invalid without rotary positions
  ValueId step;
  ValueId loss;
  ValueId stream;  // by autodiff
  friend bool operator==(const BatchValues&, const BatchValues&) = default;
};

struct Graph {
  std::string name;
  std::vector<GraphValue> values;
  BatchValues inputs;
  std::vector<GraphUnit> units;  // in forward order: embedding, layers, head
  friend bool operator==(const Graph&, const Graph&) = default;
};

}  // namespace parbuckle
