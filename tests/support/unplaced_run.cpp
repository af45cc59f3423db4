#include "tests/support/unplaced_run.h"

#include <algorithm>

#include "engine/base/check.h"
#include "tests/support/mixing_programs.h"

namespace parbuckle {

UnplacedRun::UnplacedRun(const Workload& workload,
                         const Plan& plan,
                         std::span<const Program> programs)
    : workload_(workload), plan_(plan), programs_(programs) {
}

std::vector<std::byte>& UnplacedRun::buffer(SpanId id, std::int32_t micro_batch) {
  std::vector<std::byte>& bytes = buffers_[{id, micro_batch}];
  if (bytes.empty()) {
    const Span& span = workload_.spans[id.index()];
    bytes.assign(static_cast<std::size_t>(span.bytes), std::byte{0xFF});
    for (const BlockId part : span.blocks) {
      const Block& block = workload_.blocks[part.index()];
      if (block.pinned || block.starts_zero) {
        std::ranges::fill(this->block(part, micro_batch), std::byte{0});
      }
    }
  }
  return bytes;
}

std::span<std::byte> UnplacedRun::block(BlockId id, std::int32_t micro_batch) {
  const Block& block = workload_.blocks[id.index()];
  const std::span<std::byte> all = buffer(block.span, micro_batch);
  return all.subspan(static_cast<std::size_t>(block.span_offset),
                     static_cast<std::size_t>(block_bytes(block, workload_.shapes.back())));
}

void UnplacedRun::run_step(const StepInput& input) {
  bool pending = true;
  bool asked = false;
  bool apply = true;
  for (const Task& task : plan_.tasks) {
    pending = pending && task.kind != TaskKind::backward;
    const bool update = task.kind == TaskKind::update;
    if (update && pending) {
      if (input.mode != StepMode::without_pending) {
        run_task(task, input.shapes);
      }
      continue;
    }
    if (input.mode == StepMode::pending_only) {
      continue;
    }
    if (update && !std::exchange(asked, true) && input.apply_updates) {
      apply = input.apply_updates();
    }
    if (!update || apply) {
      run_task(task, input.shapes);
    }
  }
}

void UnplacedRun::run_task(const Task& task, std::span<const std::int32_t> shapes) {
  const std::vector<ProgramId>& ids = workload_.families[task.family.index()].programs;
  const auto shape =
      ids.size() == 1
          ? std::size_t{0}
          : static_cast<std::size_t>(shapes[static_cast<std::size_t>(task.micro_batch)]);
  const Program& program = programs_[ids[shape].index()];
  std::vector<std::byte> scratch(static_cast<std::size_t>(program.scratch_bytes));
  std::vector<std::byte*> regions;
  for (const TaskOperand& operand : task.operands) {
    const Allocation& at = plan_.allocations[operand.allocation.index()];
    std::int64_t offset = operand.offset;
    if (at.block >= 0) {
      const BlockId id =
          workload_.spans[at.span.index()].blocks[static_cast<std::size_t>(at.block)];
      offset += workload_.blocks[id.index()].span_offset;
    }
    regions.push_back(buffer(at.span, at.micro_batch).data() + offset);
  }
  regions.push_back(scratch.data());
  for (const OpCall& call : program.ops) {
    OpShape op{.kind = call.kind, .attributes = call.attributes};
    std::vector<OperandView> views;
    for (const OperandRef& operand : call.operands) {
      std::byte* const base = regions[static_cast<std::size_t>(operand.region)];
      views.push_back({base + operand.offset, operand.shape, operand.dtype});
      op.operands.push_back(operand.shape);
    }
    const OpArgs args{.operands = views, .attributes = &call.attributes, .workspace = nullptr};
    PARBUCKLE_CHECK(run_mixing_op(op, args).ok(), "a mixing op cannot fail");
  }
}

}  // namespace parbuckle
