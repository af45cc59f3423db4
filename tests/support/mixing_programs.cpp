#include "tests/support/mixing_programs.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "engine/base/check.h"

namespace parbuckle {
namespace {

constexpr std::int64_t word_bytes = 4;
constexpr std::int64_t digest_bytes = 8;

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9U;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

/// All of the operand in steps of 8 bytes and a last one of 4: step(address, bytes).
template <class Step>
void for_words(const OperandView& view, const Step& step) {
  auto* const data = static_cast<std::byte*>(view.data);
  const std::int64_t bytes = view.shape.elements() * word_bytes;
  std::int64_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    step(data + at, std::size_t{8});
  }
  if (at < bytes) {
    step(data + at, std::size_t{4});
  }
}

std::uint64_t load_digest(const OperandView& view) {
  std::uint64_t digest = 0;
  std::memcpy(&digest, view.data, sizeof(digest));
  return digest;
}

std::vector<const TaskTemplate*> all_templates(const Workload& workload) {
  std::vector<const TaskTemplate*> found;
  const auto add = [&found](const std::vector<TaskTemplate>& list) {
    for (const TaskTemplate& task : list) {
      found.push_back(&task);
    }
  };
  for (const Unit& unit : workload.units) {
    for (const Alternative& alternative : unit.alternatives) {
      add(alternative.forward);
      add(alternative.backward);
    }
    add(unit.gradient_begin);
    add(unit.gradient_end);
  }
  add(workload.begin);
  add(workload.turn);
  add(workload.finish);
  for (const Update& update : workload.updates) {
    found.push_back(&update.task);
  }
  return found;
}

std::int64_t use_bytes(const Workload& workload, const Use& use, const ShapeKey& shape) {
  const Span& span = workload.spans[use.span.index()];
  if (use.block >= 0) {
    const BlockId id = span.blocks[static_cast<std::size_t>(use.block)];
    return block_bytes(workload.blocks[id.index()], shape);
  }
  const Block& last = workload.blocks[span.blocks.back().index()];
  return last.span_offset + block_bytes(last, shape);
}

Program make_program(const Workload& workload, const TaskTemplate& task, const ShapeKey& shape) {
  const Family& family = workload.families[task.family.index()];
  Program program{.name = family.name, .key = shape};
  program.scratch_bytes = family.scratch_bytes;
  for (const Use& use : task.uses) {
    program.region_bytes.push_back(use_bytes(workload, use, shape));
  }
  const auto scratch = static_cast<std::int32_t>(task.uses.size());
  const auto range = [](std::int32_t region, std::int64_t offset, std::int64_t bytes) {
    return OperandRef{region, offset, DType::i32, {bytes / word_bytes, 1, 1}};
  };
  const OperandRef digest = range(scratch, 0, digest_bytes);
  const OperandRef rest = range(scratch, digest_bytes, family.scratch_bytes - digest_bytes);
  const auto add = [&program, &task](OpKind kind, std::vector<OperandRef> operands) {
    const Attributes salt{.row_begin = task.family.value + 1};
    program.ops.push_back({.kind = kind, .attributes = salt, .operands = std::move(operands)});
  };
  add(OpKind::fill_zero, {range(scratch, 0, family.scratch_bytes)});
  for (std::size_t i = 0; i < task.uses.size(); ++i) {
    if (task.uses[i].access != Access::write) {
      add(OpKind::square_sum,
          {range(static_cast<std::int32_t>(i), 0, program.region_bytes[i]), digest});
    }
  }
  add(OpKind::square_sum, {rest, digest});
  for (std::size_t i = 0; i < task.uses.size(); ++i) {
    const OperandRef whole = range(static_cast<std::int32_t>(i), 0, program.region_bytes[i]);
    if (task.uses[i].access == Access::write) {
      add(OpKind::copy, {digest, whole});
    } else if (task.uses[i].access == Access::update) {
      add(OpKind::add, {digest, whole, whole});
    }
  }
  return program;
}

}  // namespace

std::vector<Program> make_mixing_programs(Workload& workload) {
  std::vector<Program> programs;
  for (Family& family : workload.families) {
    family.scratch_bytes = std::max(family.scratch_bytes / 64 * 64, std::int64_t{64});
    for (const ProgramId id : family.programs) {
      programs.resize(std::max(programs.size(), id.index() + 1));
    }
  }
  for (const TaskTemplate* task : all_templates(workload)) {
    const std::vector<ProgramId>& ids = workload.families[task->family.index()].programs;
    for (std::size_t s = 0; s < ids.size(); ++s) {
      Program& program = programs[ids[s].index()];
      PARBUCKLE_CHECK(program.name.empty(), "a family belongs to one task template");
      const std::size_t shape = ids.size() == 1 ? workload.shapes.size() - 1 : s;
      program = make_program(workload, *task, workload.shapes[shape]);
    }
  }
  return programs;
}

Status run_mixing_op(const OpShape& op, const OpArgs& args) {
  const std::span<const OperandView> operands = args.operands;
  const auto salt = static_cast<std::uint64_t>(args.attributes->row_begin);
  if (op.kind == OpKind::fill_zero) {
    const std::uint64_t value = mix(salt);
    for_words(operands[0],
              [value](std::byte* at, std::size_t bytes) { std::memcpy(at, &value, bytes); });
    return {};
  }
  if (op.kind == OpKind::square_sum) {
    std::uint64_t digest = load_digest(operands[1]);
    for_words(operands[0], [&digest](const std::byte* at, std::size_t bytes) {
      std::uint64_t word = 0;
      std::memcpy(&word, at, bytes);
      digest = (digest ^ word) * 0x9E3779B97F4A7C15U;
      digest ^= digest >> 32;
    });
    digest = mix(digest);
    std::memcpy(operands[1].data, &digest, sizeof(digest));
    return {};
  }
  const bool adds = op.kind == OpKind::add;
  std::uint64_t pattern = mix(load_digest(operands[0]) + salt);
  for_words(operands[1], [&pattern, adds](std::byte* at, std::size_t bytes) {
    pattern = pattern * 6364136223846793005U + 1442695040888963407U;
    std::uint64_t word = 0;
    if (adds) {
      std::memcpy(&word, at, bytes);
    }
    word = 3 * word + (pattern ^ (pattern >> 32));
    std::memcpy(at, &word, bytes);
  });
  return {};
}

OpTable MixingDevice::table() {
  return {.state = this,
          .prepare = [](void*, const OpShape&) -> Result<std::int64_t> { return std::int64_t{0}; },
          .run = [](void* state, const OpShape& op, const OpArgs& args) -> Status {
            const auto* const device = static_cast<const MixingDevice*>(state);
            if (device->before_op) {
              PARBUCKLE_TRY(device->before_op());
            }
            return run_mixing_op(op, args);
          }};
}

}  // namespace parbuckle
