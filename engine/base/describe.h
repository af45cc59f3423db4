// The members of every plain-data type, once: describe(value, visit) calls visit(name, member) in order. JSON is built on it;
// a member that is missing here would vanish from files, so tests compare round trips.
#pragma once

#include <array>
#include <string_view>
#include <type_traits>

#include "engine/base/graph.h"
#include "engine/base/hardware.h"
#include "engine/base/op.h"
#include "engine/base/plan.h"
#include "engine/base/program.h"
#include "engine/base/workload.h"

namespace parbuckle {

// Words of each enum, in the order of its values.
constexpr std::array<std::string_view, 7> words_of(DType /*type*/) {
  return {"f32", "f64", "bf16", "f16", "i32", "i64", "u8"};
}
constexpr std::array<std::string_view, 3> words_of(Tier /*type*/) {
  return {"device", "host", "nvme"};
}
constexpr std::array<std::string_view, 38> words_of(OpKind /*type*/) {
  return {"embedding_forward",
          "position_forward",
          "embedding_backward",
          "rope_table",
          "rope_forward",
          "rope_backward",
          "linear_forward",
          "linear_backward_input",
          "linear_backward_weight",
          "bias_backward",
          "rms_norm_forward",
          "rms_norm_backward",
          "layer_norm_forward",
          "layer_norm_backward",
          "attention_forward",
          "attention_backward",
          "attention_cached",
          "activation_forward",
          "activation_backward",
          "gated_forward",
          "gated_backward",
          "add",
          "copy",
          "fill_zero",
          "head_loss",
          "head_stats",
          "head_stats_loss",
          "head_grad",
          "square_sum",
          "row_square_sum",
          "gather_touched",
          "row_square_sum_touched",
          "global_norm",
          "prepare_update",
          "adamw",
          "adamw_table",
          "split3",
          "merge3"};
}
constexpr std::array<std::string_view, 4> words_of(Activation /*type*/) {
  return {"silu", "gelu_exact", "gelu_tanh", "relu"};
}
constexpr std::array<std::string_view, 8> words_of(ValueRole /*type*/) {
  return {"batch", "parameter", "gradient", "residual", "stream", "inner", "scalars", "statistic"};
}
constexpr std::array<std::string_view, 3> words_of(UnitKind /*type*/) {
  return {"embedding", "layer", "head"};
}
constexpr std::array<std::string_view, 15> words_of(Role /*type*/) {
  return {"weight",
          "frozen_weight",
          "quantisation_scale",
          "master_low",
          "moment1",
          "moment2",
          "gradient",
          "sparse_gradient",
          "activation",
          "boundary",
          "stream",
          "batch",
          "kv_cache",
          "statistic",
          "scratch"};
}
constexpr std::array<std::string_view, 3> words_of(Access /*type*/) {
  return {"read", "write", "update"};
}
constexpr std::array<std::string_view, 4> words_of(Phase /*type*/) {
  return {"train", "eval", "prefill", "decode"};
}
constexpr std::array<std::string_view, lane_kind_count> words_of(LaneKind /*type*/) {
  return {"compute", "h2d", "d2h", "nvme_read", "nvme_write", "host_compute"};
}
constexpr std::array<std::string_view, 3> words_of(Window /*type*/) {
  return {"after", "fused", "lazy"};
}
constexpr std::array<std::string_view, 3> words_of(WaitsIn /*type*/) {
  return {"compute", "host", "nvme"};
}
constexpr std::array<std::string_view, 8> words_of(TaskKind /*type*/) {
  return {
      "begin", "update", "forward", "turn", "gradient_begin", "backward", "gradient_end", "finish"};
}

template <class T, class U>
concept Is = std::is_same_v<std::remove_const_t<T>, U>;

template <Is<Attributes> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("eps", value.eps);
  visit("scale", value.scale);
  visit("heads", value.heads);
  visit("kv_heads", value.kv_heads);
  visit("head_dim", value.head_dim);
  visit("window", value.window);
  visit("parts", value.parts);
  visit("row_begin", value.row_begin);
  visit("activation", value.activation);
  visit("in_out", value.in_out);
  visit("accumulate", value.accumulate);
  visit("first", value.first);
  visit("decay", value.decay);
}
template <Is<Shape> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("d0", value.d0);
  visit("d1", value.d1);
  visit("d2", value.d2);
}
template <Is<ShapeKey> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("rows", value.rows);
  visit("cache_rows", value.cache_rows);
}
template <Is<OperandRef> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("region", value.region);
  visit("offset", value.offset);
  visit("dtype", value.dtype);
  visit("shape", value.shape);
}
template <Is<OpCall> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("kind", value.kind);
  visit("attributes", value.attributes);
  visit("operands", value.operands);
  visit("workspace_offset", value.workspace_offset);
}
template <Is<GraphValue> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("name", value.name);
  visit("role", value.role);
  visit("dtype", value.dtype);
  visit("per_token", value.per_token);
  visit("rows", value.rows);
  visit("columns", value.columns);
  visit("vector", value.vector);
  visit("gradient_of", value.gradient_of);
}
template <Is<ValueUse> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("value", value.value);
  visit("heads", value.heads);
}
template <Is<GraphOp> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("kind", value.kind);
  visit("attributes", value.attributes);
  visit("operands", value.operands);
}
template <Is<GraphUnit> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("name", value.name);
  visit("family", value.family);
  visit("kind", value.kind);
  visit("input", value.input);
  visit("output", value.output);
  visit("parameters", value.parameters);
  visit("gradients", value.gradients);
  visit("forward", value.forward);
  visit("backward", value.backward);
}
template <Is<BatchValues> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("tokens", value.tokens);
  visit("positions", value.positions);
  visit("segment_begin", value.segment_begin);
  visit("targets", value.targets);
  visit("slots", value.slots);
  visit("inverse_frequencies", value.inverse_frequencies);
  visit("rotary", value.rotary);
  visit("step", value.step);
  visit("loss", value.loss);
  visit("stream", value.stream);
}
template <Is<Graph> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("name", value.name);
  visit("values", value.values);
  visit("inputs", value.inputs);
  visit("units", value.units);
}
template <Is<Program> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("name", value.name);
  visit("key", value.key);
  visit("region_bytes", value.region_bytes);
  visit("ops", value.ops);
  visit("scratch_bytes", value.scratch_bytes);
  visit("flops", value.flops);
  visit("traffic_bytes", value.traffic_bytes);
}
template <Is<Block> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("name", value.name);
  visit("role", value.role);
  visit("dtype", value.dtype);
  visit("bytes", value.bytes);
  visit("row_bytes", value.row_bytes);
  visit("per_micro_batch", value.per_micro_batch);
  visit("persistent", value.persistent);
  visit("starts_zero", value.starts_zero);
  visit("pinned", value.pinned);
  visit("span", value.span);
  visit("span_offset", value.span_offset);
}
template <Is<Span> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("name", value.name);
  visit("blocks", value.blocks);
  visit("bytes", value.bytes);
  visit("per_micro_batch", value.per_micro_batch);
}
template <Is<Use> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("span", value.span);
  visit("block", value.block);
  visit("access", value.access);
}
template <Is<Family> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("name", value.name);
  visit("programs", value.programs);
  visit("flops", value.flops);
  visit("traffic_bytes", value.traffic_bytes);
  visit("scratch_bytes", value.scratch_bytes);
}
template <Is<TaskTemplate> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("family", value.family);
  visit("uses", value.uses);
}
template <Is<Alternative> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("name", value.name);
  visit("forward", value.forward);
  visit("backward", value.backward);
}
template <Is<Unit> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("name", value.name);
  visit("alternatives", value.alternatives);
  visit("gradient_begin", value.gradient_begin);
  visit("gradient_end", value.gradient_end);
}
template <Is<Update> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("span", value.span);
  visit("block", value.block);
  visit("task", value.task);
}
template <Is<Workload> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("name", value.name);
  visit("phase", value.phase);
  visit("micro_batches", value.micro_batches);
  visit("shapes", value.shapes);
  visit("blocks", value.blocks);
  visit("spans", value.spans);
  visit("families", value.families);
  visit("units", value.units);
  visit("begin", value.begin);
  visit("turn", value.turn);
  visit("finish", value.finish);
  visit("updates", value.updates);
  visit("clipping", value.clipping);
  visit("signature", value.signature);
}
template <Is<TierCapacity> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("tier", value.tier);
  visit("name", value.name);
  visit("bytes", value.bytes);
  visit("free_bytes", value.free_bytes);
  visit("limited_by", value.limited_by);
}
template <Is<Lane> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("name", value.name);
  visit("kind", value.kind);
  visit("latency_s", value.latency_s);
  visit("bytes_per_s", value.bytes_per_s);
  visit("duplex_bytes_per_s", value.duplex_bytes_per_s);
  visit("engine", value.engine);
}
template <Is<ProgramTime> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("program", value.program);
  visit("key", value.key);
  visit("seconds", value.seconds);
  visit("device", value.device);
}
template <Is<ComputeDevice> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("name", value.name);
  visit("cores", value.cores);
  visit("instruction_set", value.instruction_set);
  visit("flops_per_s", value.flops_per_s);
  visit("memory_bytes_per_s", value.memory_bytes_per_s);
}
template <Is<Hardware> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("name", value.name);
  visit("fingerprint", value.fingerprint);
  visit("devices", value.devices);
  visit("tiers", value.tiers);
  visit("lanes", value.lanes);
  visit("program_times", value.program_times);
}
template <Is<Budgets> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("device_bytes", value.device_bytes);
  visit("host_bytes", value.host_bytes);
  visit("host_reserve_bytes", value.host_reserve_bytes);
  visit("nvme_bytes", value.nvme_bytes);
  visit("written_bytes_per_step", value.written_bytes_per_step);
}
template <Is<Choice> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("group", value.group);
  visit("window", value.window);
  visit("alternative", value.alternative);
  visit("activation", value.activation);
  visit("boundary", value.boundary);
  visit("gradient", value.gradient);
  visit("resident", value.resident);
  visit("hosted", value.hosted);
  visit("host_updates", value.host_updates);
  visit("prefetch", value.prefetch);
  visit("by_stage", value.by_stage);
}
template <Is<Allocation> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("what", value.what);
  visit("role", value.role);
  visit("span", value.span);
  visit("block", value.block);
  visit("micro_batch", value.micro_batch);
  visit("tier", value.tier);
  visit("offset", value.offset);
  visit("bytes", value.bytes);
  visit("resident", value.resident);
}
template <Is<TaskOperand> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("allocation", value.allocation);
  visit("offset", value.offset);
  visit("access", value.access);
}
template <Is<Task> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("kind", value.kind);
  visit("lane", value.lane);
  visit("family", value.family);
  visit("unit", value.unit);
  visit("micro_batch", value.micro_batch);
  visit("operands", value.operands);
  visit("scratch_offset", value.scratch_offset);
  visit("scratch_bytes", value.scratch_bytes);
  visit("after_task", value.after_task);
  visit("waits", value.waits);
}
template <Is<Transfer> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("lane", value.lane);
  visit("block", value.block);
  visit("micro_batch", value.micro_batch);
  visit("allocation", value.allocation);
  visit("offset", value.offset);
  visit("host", value.host);
  visit("host_offset", value.host_offset);
  visit("bytes", value.bytes);
  visit("after_task", value.after_task);
  visit("after_host_task", value.after_host_task);
  visit("after_transfers", value.after_transfers);
}
template <Is<Home> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("block", value.block);
  visit("tier", value.tier);
  visit("allocation", value.allocation);
  visit("offset", value.offset);
}
template <Is<RoleBytes> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("role", value.role);
  visit("read", value.read);
  visit("written", value.written);
  visit("down", value.down);
  visit("up", value.up);
  visit("resident", value.resident);
  visit("hosted", value.hosted);
  visit("stored", value.stored);
}
template <Is<Interval> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("begin_s", value.begin_s);
  visit("end_s", value.end_s);
}
template <Is<Timeline> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("tasks", value.tasks);
  visit("transfers", value.transfers);
  visit("step_s", value.step_s);
}
template <Is<StepTrace> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("timeline", value.timeline);
  visit("bytes", value.bytes);
  visit("arena_peak_bytes", value.arena_peak_bytes);
  visit("device_arena_peak_bytes", value.device_arena_peak_bytes);
}
template <Is<Bound> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("compute_s", value.compute_s);
  visit("host_s", value.host_s);
  visit("read_s", value.read_s);
  visit("write_s", value.write_s);
  visit("duplex_s", value.duplex_s);
  visit("down_s", value.down_s);
  visit("up_s", value.up_s);
  visit("step_s", value.step_s);
  visit("limited_by", value.limited_by);
}
template <Is<Plan> T, class Visit>
void describe(T& value, Visit&& visit) {
  visit("workload", value.workload);
  visit("phase", value.phase);
  visit("choice", value.choice);
  visit("budgets", value.budgets);
  visit("signature_hash", value.signature_hash);
  visit("allocations", value.allocations);
  visit("tasks", value.tasks);
  visit("transfers", value.transfers);
  visit("homes", value.homes);
  visit("device_arena_bytes", value.device_arena_bytes);
  visit("host_arena_bytes", value.host_arena_bytes);
  visit("nvme_pool_bytes", value.nvme_pool_bytes);
  visit("bytes", value.bytes);
  visit("smallest_host_bytes", value.smallest_host_bytes);
  visit("predicted", value.predicted);
  visit("bound", value.bound);
  visit("reasons", value.reasons);
}

}  // namespace parbuckle
