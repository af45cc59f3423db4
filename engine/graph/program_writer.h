// Turns the op list of one task into a family of Programs and the task's uses.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/op.h"
#include "engine/base/program.h"
#include "engine/base/workload.h"

namespace parbuckle {

/// Where an operand lies: inside a span (or one block of it), or in the task's scratch.
struct Place {
  SpanId span;                 // invalid: scratch
  std::int32_t block = -1;     // -1: the whole span
  std::int64_t offset = 0;     // bytes
  std::int64_t row_bytes = 0;  // per-token spans: bytes of a row of everything that lies before it
  friend auto operator<=>(const Place&, const Place&) = default;
};

/// An operand before its ShapeKey is known.
struct Operand {
  Place place;
  std::int32_t temporary = -1;  // scratch: operands with equal numbers are one buffer
  DType dtype = DType::f32;
  bool per_token = false;  // rows are a multiple of the ShapeKey's
  std::int64_t rows = 1;   // per_token: rows per token
  std::int64_t columns = 1;
};

struct TaskOp {
  OpKind kind = OpKind::copy;
  Attributes attributes;
  std::vector<Operand> operands;
};

/// Compiles tasks into a workload and its program list; equal tasks share a family.
class TaskCompiler {
 public:
  TaskCompiler(const OpTable& device, Workload& workload, std::vector<Program>& programs)
      : device_(device), workload_(workload), programs_(programs) {}

  /// `name` becomes the family's, with a number behind it where another structure has it already. The task's uses are in
  /// the order in which the ops first name their spans.
  Result<TaskTemplate> task(const std::string& name, const std::vector<TaskOp>& ops);

 private:
  struct Known {
    OpShape op;
    std::int64_t workspace = 0;
  };

  Result<Program> program(const ShapeKey& key,
                          const std::vector<Use>& uses,
                          const std::vector<TaskOp>& ops);
  Result<std::int64_t> workspace_of(const OpShape& op);
  FamilyId family(const std::string& name, std::vector<Program> programs);
  std::string free_name(const std::string& name);

  const OpTable device_;
  Workload& workload_;
  std::vector<Program>& programs_;
  std::vector<Known> known_;
  std::map<std::string, int> names_;
};

/// Lays buffers that live from op `first` to op `last` into one range, equal offsets only for lives that do not meet.
struct Lifetime {
  std::int64_t bytes = 0;
  std::size_t first = 0;
  std::size_t last = 0;
  std::int64_t offset = 0;  // result, multiple of 64
};
/// Sets the offsets; returns the size of the range.
std::int64_t place_lifetimes(std::vector<Lifetime>& buffers);

}  // namespace parbuckle
