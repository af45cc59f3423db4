// Runs a lowered workload with everything in memory, and distrusts it: whatever a task may not rely on is filled with
// NaN bytes first, and what it only reads must be unchanged afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/plan.h"
#include "engine/graph/lower.h"

namespace parbuckle {

class ResidentRun {
 public:
  ResidentRun(const Lowered& lowered, const OpTable& table);

  /// First byte of a span (of this micro-batch's instance where it has one each).
  std::byte* span(SpanId id, std::int32_t micro_batch = 0);
  template <class T>
  T* as(SpanId id, std::int32_t micro_batch = 0) {
    return reinterpret_cast<T*>(span(id, micro_batch));
  }

  void set_parameter(const std::string& name, const std::vector<double>& values);
  /// What the pieces' `block` member holds: &ParameterPiece::weight, ::moment1, ::gradient...
  std::vector<float> parameter(const std::string& name, BlockId ParameterPiece::*block);

  /// Shape of a micro-batch, index into Workload::shapes; the last where not set.
  void set_shape(std::int32_t micro_batch, std::size_t shape);

  /// One step; of `choice` the group (1 or all micro-batches), window and alternatives are used. Updates of the lazy window wait
  /// for the next step, or for apply_pending.
  Status train_step(const Choice& choice);
  Status apply_pending();
  /// Forward tasks of all units, for the other phases.
  Status forward_pass();
  /// The same for one unit alone: what stands before it must be in its spans.
  Status forward_unit(std::size_t unit);

 private:
  Status run(const TaskTemplate& task, std::int32_t micro_batch);
  Status run_all(const std::vector<TaskTemplate>& tasks);
  Status run_batches(const std::vector<TaskTemplate>& tasks, std::int32_t begin, std::int32_t end);
  Status call(const Program& program, const std::vector<std::byte*>& regions);
  Status forward(const Choice& choice, std::size_t unit, std::int32_t begin, std::int32_t end);
  Status backward(const Choice& choice, std::size_t unit, std::int32_t begin, std::int32_t end);
  Status updates_of(std::size_t unit);
  std::int64_t use_bytes(const Use& use, std::int32_t micro_batch) const;
  void forget_transients(bool keep_gradients);
  const ParameterPlacement& placement(const std::string& name) const;

  const Lowered& lowered_;
  const OpTable table_;
  std::vector<std::vector<std::vector<std::byte>>> memory_;  // per span, per micro-batch
  std::vector<std::size_t> shapes_;
  std::vector<std::size_t>
      update_unit_;  // per update: the unit whose backward completes its gradient
  bool pending_ = false;
};

}  // namespace parbuckle
