#include "offload/run/program_runner.h"

#include <algorithm>
#include <string>
#include <utility>

namespace parbuckle {
namespace {

Status fault(const Program& program, const OpCall& call, const std::string& what) {
  return internal_error("program '" + program.name + "' at " + std::to_string(program.key.rows) +
                        " rows, op " + std::string(to_string(call.kind)) + ": " + what);
}

std::int64_t region_size(const Program& program, std::size_t region) {
  return region < program.region_bytes.size() ? program.region_bytes[region]
                                              : program.scratch_bytes;
}

Status check_operands(const Program& program, const OpCall& call) {
  for (const OperandRef& operand : call.operands) {
    const auto region = static_cast<std::size_t>(operand.region);
    if (operand.region < 0 || region > program.region_bytes.size()) {
      return fault(program, call, "region " + std::to_string(operand.region) + " does not exist");
    }
    const std::int64_t end = operand.offset + operand.shape.elements() * size_of(operand.dtype);
    if (operand.offset < 0 || end > region_size(program, region)) {
      return fault(program,
                   call,
                   "an operand ends at byte " + std::to_string(end) + " of region " +
                       std::to_string(operand.region) + ", which has " +
                       std::to_string(region_size(program, region)));
    }
  }
  return {};
}

}  // namespace

Result<ProgramRunner> ProgramRunner::create(std::span<const Program> programs,
                                            const std::vector<bool>& used,
                                            OpTable op_table,
                                            Stream& stream) {
  struct Preparation {
    ProgramRunner* runner;
    const std::vector<bool>* used;
    Status status;
  };
  ProgramRunner runner(programs, op_table);
  Preparation preparation{&runner, &used, {}};
  PARBUCKLE_TRY(stream.enqueue(
      [](void* context) {
        auto* const work = static_cast<Preparation*>(context);
        work->status = work->runner->prepare(*work->used);
      },
      &preparation));
  PARBUCKLE_TRY(stream.synchronise());
  PARBUCKLE_TRY(preparation.status);
  return runner;
}

Status ProgramRunner::prepare(const std::vector<bool>& used) {
  std::size_t most_operands = 0;
  for (std::size_t p = 0; p < programs_.size(); ++p) {
    if (!used[p]) {
      continue;
    }
    const Program& program = programs_[p];
    shapes_[p].reserve(program.ops.size());
    for (const OpCall& call : program.ops) {
      OpShape shape{.kind = call.kind, .attributes = call.attributes, .operands = {}};
      shape.operands.reserve(call.operands.size());
      for (const OperandRef& operand : call.operands) {
        shape.operands.push_back(operand.shape);
      }
      PARBUCKLE_TRY(check_operands(program, call));
      PARBUCKLE_TRY(prepare_op(program, call, shape));
      most_operands = std::max(most_operands, call.operands.size());
      shapes_[p].push_back(std::move(shape));
    }
  }
  views_.resize(most_operands);
  return {};
}

Status ProgramRunner::prepare_op(const Program& program, const OpCall& call, const OpShape& shape) {
  PARBUCKLE_ASSIGN(const std::int64_t workspace, op_table_.prepare(op_table_.state, shape));
  if (call.workspace_offset < 0 || call.workspace_offset + workspace > program.scratch_bytes) {
    return fault(program,
                 call,
                 "its workspace of " + std::to_string(workspace) + " bytes at " +
                     std::to_string(call.workspace_offset) + " is outside the scratch of " +
                     std::to_string(program.scratch_bytes) + " bytes");
  }
  return {};
}

Status ProgramRunner::run(ProgramId id, std::span<std::byte* const> regions, std::byte* scratch) {
  const Program& program = programs_[id.index()];
  const std::vector<OpShape>& shapes = shapes_[id.index()];
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const OpCall& call = program.ops[i];
    for (std::size_t k = 0; k < call.operands.size(); ++k) {
      const OperandRef& operand = call.operands[k];
      const auto region = static_cast<std::size_t>(operand.region);
      std::byte* const base = region < regions.size() ? regions[region] : scratch;
      views_[k] = {base + operand.offset, operand.shape, operand.dtype};
    }
    const OpArgs args{.operands = {views_.data(), call.operands.size()},
                      .attributes = &call.attributes,
                      .workspace = scratch + call.workspace_offset};
    PARBUCKLE_TRY(op_table_.run(op_table_.state, shapes[i], args));
  }
  return {};
}

}  // namespace parbuckle
