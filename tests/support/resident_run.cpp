#include "tests/support/resident_run.h"

#include <algorithm>

#include "engine/base/check.h"

namespace parbuckle {
namespace {

constexpr std::byte poison{0xFF};  // as a float: NaN

bool uses_span(const Unit& unit, SpanId span) {
  for (const Alternative& alternative : unit.alternatives) {
    for (const auto* tasks : {&alternative.forward, &alternative.backward}) {
      for (const TaskTemplate& task : *tasks) {
        for (const Use& use : task.uses) {
          if (use.span == span) {
            return true;
          }
        }
      }
    }
  }
  return false;
}

}  // namespace

ResidentRun::ResidentRun(const Lowered& lowered, const OpTable& table)
    : lowered_(lowered), table_(table) {
  const Workload& w = lowered.workload;
  shapes_.assign(static_cast<std::size_t>(w.micro_batches), w.shapes.size() - 1);
  for (const Span& span : w.spans) {
    const Block& first = w.blocks[span.blocks.front().index()];
    const std::size_t copies = span.per_micro_batch ? static_cast<std::size_t>(w.micro_batches) : 1;
    const std::byte fill = first.starts_zero ? std::byte{0} : poison;
    memory_.emplace_back(copies,
                         std::vector<std::byte>(static_cast<std::size_t>(span.bytes), fill));
  }
  for (const Update& update : w.updates) {
    std::size_t unit = 0;
    while (!uses_span(w.units[unit], update.span)) {
      ++unit;
    }
    update_unit_.push_back(unit);
  }
}

std::byte* ResidentRun::span(SpanId id, std::int32_t micro_batch) {
  auto& copies = memory_[id.index()];
  return copies[copies.size() == 1 ? 0 : static_cast<std::size_t>(micro_batch)].data();
}

const ParameterPlacement& ResidentRun::placement(const std::string& name) const {
  const auto found = std::find_if(lowered_.parameters.begin(),
                                  lowered_.parameters.end(),
                                  [&name](const ParameterPlacement& p) { return p.name == name; });
  PARBUCKLE_CHECK(found != lowered_.parameters.end(), name.c_str());
  return *found;
}

void ResidentRun::set_parameter(const std::string& name, const std::vector<double>& values) {
  for (const ParameterPiece& piece : placement(name).pieces) {
    const Block& block = lowered_.workload.blocks[piece.weight.index()];
    auto* const to = reinterpret_cast<float*>(span(block.span) + block.span_offset + piece.offset);
    for (std::int64_t i = 0; i < piece.count; ++i) {
      to[i] = static_cast<float>(values[static_cast<std::size_t>(piece.first + i)]);
    }
  }
}

std::vector<float> ResidentRun::parameter(const std::string& name, BlockId ParameterPiece::*which) {
  std::vector<float> out;
  for (const ParameterPiece& piece : placement(name).pieces) {
    const Block& block = lowered_.workload.blocks[(piece.*which).index()];
    const auto* const from =
        reinterpret_cast<const float*>(span(block.span) + block.span_offset + piece.offset);
    out.insert(out.end(), from, from + piece.count);
  }
  return out;
}

void ResidentRun::set_shape(std::int32_t micro_batch, std::size_t shape) {
  shapes_[static_cast<std::size_t>(micro_batch)] = shape;
}

std::int64_t ResidentRun::use_bytes(const Use& use, std::int32_t micro_batch) const {
  const Workload& w = lowered_.workload;
  const Span& span = w.spans[use.span.index()];
  if (use.block >= 0) {
    return w.blocks[span.blocks[static_cast<std::size_t>(use.block)].index()].bytes;
  }
  if (!span.per_micro_batch) {
    return span.bytes;
  }
  const std::size_t shape = shapes_[static_cast<std::size_t>(micro_batch)];
  return block_bytes(w.blocks[span.blocks.front().index()], w.shapes[shape]);
}

Status ResidentRun::run(const TaskTemplate& task, std::int32_t micro_batch) {
  const Workload& w = lowered_.workload;
  const Family& family = w.families[task.family.index()];
  const std::size_t shape =
      family.programs.size() == 1 ? 0 : shapes_[static_cast<std::size_t>(micro_batch)];
  const Program& program = lowered_.programs[family.programs[shape].index()];
  std::vector<std::byte*> regions;
  std::vector<std::vector<std::byte>> before;
  for (std::size_t u = 0; u < task.uses.size(); ++u) {
    const Use& use = task.uses[u];
    const Span& span = w.spans[use.span.index()];
    const auto block = static_cast<std::size_t>(std::max(0, use.block));
    std::byte* const data =
        this->span(use.span, micro_batch) + w.blocks[span.blocks[block].index()].span_offset;
    const std::int64_t bytes = use_bytes(use, micro_batch);
    PARBUCKLE_CHECK(program.region_bytes[u] <= bytes, program.name.c_str());
    if (use.access == Access::write) {
      std::fill(data, data + bytes, poison);
    }
    before.emplace_back(data, use.access == Access::read ? data + bytes : data);
    regions.push_back(data);
  }
  std::vector<std::byte> scratch(static_cast<std::size_t>(program.scratch_bytes), poison);
  regions.push_back(scratch.data());
  PARBUCKLE_TRY(call(program, regions));
  for (std::size_t u = 0; u < before.size(); ++u) {
    if (!std::equal(before[u].begin(), before[u].end(), regions[u])) {
      return internal_error(program.name + " changed " + w.spans[task.uses[u].span.index()].name +
                            ", which it only reads");
    }
  }
  return {};
}

Status ResidentRun::call(const Program& program, const std::vector<std::byte*>& regions) {
  for (const OpCall& op : program.ops) {
    OpShape shape = {.kind = op.kind, .attributes = op.attributes};
    std::vector<OperandView> views;
    for (const OperandRef& ref : op.operands) {
      shape.operands.push_back(ref.shape);
      views.push_back({.data = regions[static_cast<std::size_t>(ref.region)] + ref.offset,
                       .shape = ref.shape,
                       .dtype = ref.dtype});
    }
    const OpArgs args = {.operands = views,
                         .attributes = &shape.attributes,
                         .workspace = regions.back() + op.workspace_offset};
    PARBUCKLE_TRY(table_.run(table_.state, shape, args));
  }
  return {};
}

Status ResidentRun::run_all(const std::vector<TaskTemplate>& tasks) {
  for (const TaskTemplate& task : tasks) {
    PARBUCKLE_TRY(run(task, 0));
  }
  return {};
}

Status ResidentRun::run_batches(const std::vector<TaskTemplate>& tasks,
                                std::int32_t begin,
                                std::int32_t end) {
  for (const TaskTemplate& task : tasks) {
    for (std::int32_t m = begin; m < end; ++m) {
      PARBUCKLE_TRY(run(task, m));
    }
  }
  return {};
}

Status ResidentRun::forward(const Choice& choice,
                            std::size_t unit,
                            std::int32_t begin,
                            std::int32_t end) {
  const Unit& u = lowered_.workload.units[unit];
  const auto alternative = static_cast<std::size_t>(choice.alternative[unit]);
  return run_batches(u.alternatives[alternative].forward, begin, end);
}

Status ResidentRun::backward(const Choice& choice,
                             std::size_t unit,
                             std::int32_t begin,
                             std::int32_t end) {
  const Unit& u = lowered_.workload.units[unit];
  const auto alternative = static_cast<std::size_t>(choice.alternative[unit]);
  if (begin == 0) {
    PARBUCKLE_TRY(run_all(u.gradient_begin));
  }
  PARBUCKLE_TRY(run_batches(u.alternatives[alternative].backward, begin, end));
  if (end < lowered_.workload.micro_batches) {
    return {};
  }
  PARBUCKLE_TRY(run_all(u.gradient_end));
  return choice.window == Window::fused ? updates_of(unit) : Status();
}

Status ResidentRun::updates_of(std::size_t unit) {
  for (std::size_t i = 0; i < update_unit_.size(); ++i) {
    if (update_unit_[i] == unit) {
      PARBUCKLE_TRY(run(lowered_.workload.updates[i].task, 0));
    }
  }
  return {};
}

void ResidentRun::forget_transients(bool keep_gradients) {
  const Workload& w = lowered_.workload;
  for (std::size_t s = 0; s < memory_.size(); ++s) {
    const Block& block = w.blocks[w.spans[s].blocks.front().index()];
    const bool gradient = block.role == Role::gradient || block.role == Role::sparse_gradient;
    if (block.persistent || block.pinned || (gradient && keep_gradients)) {
      continue;
    }
    for (auto& copy : memory_[s]) {
      std::fill(copy.begin(), copy.end(), poison);
    }
  }
}

Status ResidentRun::train_step(const Choice& choice) {
  const Workload& w = lowered_.workload;
  const std::int32_t all = w.micro_batches;
  forget_transients(pending_);
  PARBUCKLE_TRY(run_all(w.begin));
  PARBUCKLE_TRY(apply_pending());
  std::vector<std::pair<std::int32_t, std::int32_t>> groups;
  for (std::int32_t begin = 0; begin < all; begin += choice.group) {
    groups.emplace_back(begin, std::min(all, begin + choice.group));
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto [begin, end] = groups[g];
    for (std::size_t u = 0; u < w.units.size(); ++u) {
      PARBUCKLE_TRY(forward(choice, u, begin, end));
    }
    if (g == 0 && choice.window == Window::fused) {
      PARBUCKLE_TRY(run_all(w.turn));
    }
    for (std::size_t u = w.units.size(); u-- > 0;) {
      PARBUCKLE_TRY(backward(choice, u, begin, end));
    }
  }
  if (choice.window == Window::fused) {
    return {};
  }
  PARBUCKLE_TRY(run_all(w.finish));
  pending_ = true;
  return choice.window == Window::lazy ? Status() : apply_pending();
}

Status ResidentRun::apply_pending() {
  for (std::size_t i = 0; pending_ && i < update_unit_.size(); ++i) {
    PARBUCKLE_TRY(run(lowered_.workload.updates[i].task, 0));
  }
  pending_ = false;
  return {};
}

Status ResidentRun::forward_pass() {
  for (std::size_t unit = 0; unit < lowered_.workload.units.size(); ++unit) {
    PARBUCKLE_TRY(forward_unit(unit));
  }
  return {};
}

Status ResidentRun::forward_unit(std::size_t unit) {
  const Workload& w = lowered_.workload;
  return run_batches(w.units[unit].alternatives.front().forward, 0, w.micro_batches);
}

}  // namespace parbuckle
