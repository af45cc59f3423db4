#include "engine/graph/program_writer.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <set>
#include <utility>

#include "parbuckle/dtype.h"
#include "parbuckle/units.h"

#include "engine/graph/op_facts.h"

namespace parbuckle {
namespace {

constexpr std::int64_t alignment = 64;

bool elementwise(OpKind kind) {
  return kind == OpKind::add || kind == OpKind::copy || kind == OpKind::fill_zero ||
         kind == OpKind::square_sum || kind == OpKind::adamw;
}

/// Elementwise ops see vectors, one-column operands too.
Shape shape_of(const Operand& operand, const ShapeKey& key, bool flat) {
  const Shape shape = {
      operand.per_token ? key.rows * operand.rows : operand.rows, operand.columns, 1};
  return flat ? Shape{shape.elements(), 1, 1} : shape;
}

std::int64_t offset_of(const Place& place, const ShapeKey& key) {
  return place.offset + round_up(key.rows * place.row_bytes, alignment);
}

bool depends_on_shape(const std::vector<TaskOp>& ops) {
  for (const TaskOp& op : ops) {
    for (const Operand& operand : op.operands) {
      if (operand.per_token || operand.place.row_bytes != 0) {
        return true;
      }
    }
  }
  return false;
}

/// One use per span or block, in order of first mention. A span is written where everything the task first touches in it is
/// written before it is read.
std::vector<Use> uses_of(const std::vector<TaskOp>& ops) {
  struct Touch {
    bool reads_first = false;
    bool writes = false;
  };
  std::vector<Use> uses;
  std::vector<Touch> touches;
  std::set<Place> seen;
  for (const TaskOp& op : ops) {
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      const Place& place = op.operands[o].place;
      if (!place.span.valid()) {
        continue;
      }
      const auto same = [&place](const Use& use) {
        return use.span == place.span && use.block == place.block;
      };
      const auto found = std::find_if(uses.begin(), uses.end(), same);
      const auto index = static_cast<std::size_t>(found - uses.begin());
      if (found == uses.end()) {
        uses.push_back({.span = place.span, .block = place.block});
        touches.push_back({});
      }
      const Access access = operand_access(op.kind, op.attributes, o);
      touches[index].writes |= access != Access::read;
      touches[index].reads_first |= seen.insert(place).second && access != Access::write;
    }
  }
  for (std::size_t i = 0; i < uses.size(); ++i) {
    uses[i].access = !touches[i].writes       ? Access::read
                     : touches[i].reads_first ? Access::update
                                              : Access::write;
  }
  return uses;
}

double bytes_touched(const OpShape& shape, const TaskOp& op) {
  double sum = 0;
  for (std::size_t o = 0; o < op.operands.size(); ++o) {
    const double passes = operand_access(op.kind, op.attributes, o) == Access::update ? 2 : 1;
    sum +=
        passes * static_cast<double>(shape.operands[o].elements() * size_of(op.operands[o].dtype));
  }
  return sum;
}

/// Scratch of one program: temporaries from their first to their last op, workspaces during theirs.
class Scratch {
 public:
  void temporary(std::int32_t number, std::int64_t bytes, std::size_t op) {
    const auto [found, added] = index_.try_emplace(number, buffers_.size());
    if (added) {
      buffers_.push_back({.bytes = bytes, .first = op, .last = op});
    }
    Lifetime& buffer = buffers_[found->second];
    buffer.bytes = std::max(buffer.bytes, bytes);
    buffer.last = op;
  }
  void workspace(std::int64_t bytes, std::size_t op) {
    workspaces_.push_back(buffers_.size());
    buffers_.push_back({.bytes = bytes, .first = op, .last = op});
  }
  std::int64_t place() { return place_lifetimes(buffers_); }
  [[nodiscard]] std::int64_t offset_of_temporary(std::int32_t number) const {
    return buffers_[index_.at(number)].offset;
  }
  [[nodiscard]] std::int64_t offset_of_workspace(std::size_t op) const {
    return buffers_[workspaces_[op]].offset;
  }

 private:
  std::vector<Lifetime> buffers_;
  std::map<std::int32_t, std::size_t> index_;
  std::vector<std::size_t> workspaces_;  // per op
};

}  // namespace

std::int64_t place_lifetimes(std::vector<Lifetime>& buffers) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&buffers](std::size_t a, std::size_t b) {
    return buffers[a].bytes > buffers[b].bytes;
  });
  std::int64_t total = 0;
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t i : order) {
    Lifetime& buffer = buffers[i];
    const std::int64_t bytes = round_up(buffer.bytes, alignment);
    std::int64_t offset = 0;
    for (const std::size_t p : placed) {
      const Lifetime& other = buffers[p];
      const bool meet = other.first <= buffer.last && buffer.first <= other.last;
      if (meet && offset + bytes <= other.offset) {
        break;
      }
      if (meet) {
        offset = std::max(offset, other.offset + round_up(other.bytes, alignment));
      }
    }
    buffer.offset = offset;
    total = std::max(total, offset + bytes);
    const auto at = std::find_if(
        placed.begin(), placed.end(), [&](std::size_t p) { return buffers[p].offset > offset; });
    placed.insert(at, i);
  }
  return total;
}

Result<std::int64_t> TaskCompiler::workspace_of(const OpShape& op) {
  const auto found = std::find_if(
      known_.begin(), known_.end(), [&op](const Known& known) { return known.op == op; });
  if (found != known_.end()) {
    return found->workspace;
  }
  PARBUCKLE_ASSIGN(const std::int64_t bytes, device_.prepare(device_.state, op));
  known_.push_back({op, bytes});
  return bytes;
}

Result<Program> TaskCompiler::program(const ShapeKey& key,
                                      const std::vector<Use>& uses,
                                      const std::vector<TaskOp>& ops) {
  Program program;
  program.key = key;
  program.region_bytes.assign(uses.size(), 0);
  const auto scratch_region = static_cast<std::int32_t>(uses.size());
  Scratch scratch;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const TaskOp& op = ops[i];
    OpShape shape = {.kind = op.kind, .attributes = op.attributes};
    OpCall call = {.kind = op.kind, .attributes = op.attributes};
    for (const Operand& operand : op.operands) {
      OperandRef ref = {.region = scratch_region,
                        .dtype = operand.dtype,
                        .shape = shape_of(operand, key, elementwise(op.kind))};
      const std::int64_t bytes = ref.shape.elements() * size_of(operand.dtype);
      if (operand.place.span.valid()) {
        const auto use = std::find_if(uses.begin(), uses.end(), [&operand](const Use& u) {
          return u.span == operand.place.span && u.block == operand.place.block;
        });
        ref.region = static_cast<std::int32_t>(use - uses.begin());
        ref.offset = offset_of(operand.place, key);
        std::int64_t& least = program.region_bytes[static_cast<std::size_t>(ref.region)];
        least = std::max(least, ref.offset + bytes);
      } else {
        scratch.temporary(operand.temporary, bytes, i);
      }
      shape.operands.push_back(ref.shape);
      call.operands.push_back(ref);
    }
    PARBUCKLE_ASSIGN(const std::int64_t workspace, workspace_of(shape));
    scratch.workspace(workspace, i);
    const double flops = flops_of(shape);
    program.flops += flops;
    program.traffic_bytes += flops > 0 ? 0 : bytes_touched(shape, op);
    program.ops.push_back(std::move(call));
  }
  program.scratch_bytes = scratch.place();
  for (std::size_t i = 0; i < ops.size(); ++i) {
    program.ops[i].workspace_offset = scratch.offset_of_workspace(i);
    for (std::size_t o = 0; o < ops[i].operands.size(); ++o) {
      if (!ops[i].operands[o].place.span.valid()) {
        program.ops[i].operands[o].offset =
            scratch.offset_of_temporary(ops[i].operands[o].temporary);
      }
    }
  }
  return program;
}

std::string TaskCompiler::free_name(const std::string& name) {
  const int taken = ++names_[name];
  return taken == 1 ? name : name + "." + std::to_string(taken);
}

FamilyId TaskCompiler::family(const std::string& name, std::vector<Program> programs) {
  for (std::size_t f = 0; f < workload_.families.size(); ++f) {
    const Family& known = workload_.families[f];
    bool equal = known.programs.size() == programs.size();
    for (std::size_t i = 0; equal && i < programs.size(); ++i) {
      programs[i].name = known.name;
      equal = programs[i] == programs_[known.programs[i].index()];
    }
    if (equal) {
      return FamilyId(f);
    }
  }
  Family added;
  added.name = free_name(name);
  for (Program& program : programs) {
    program.name = added.name;
    added.programs.emplace_back(programs_.size());
    added.flops.push_back(program.flops);
    added.traffic_bytes.push_back(program.traffic_bytes);
    added.scratch_bytes = std::max(added.scratch_bytes, program.scratch_bytes);
    programs_.push_back(std::move(program));
  }
  workload_.families.push_back(std::move(added));
  return FamilyId(workload_.families.size() - 1);
}

Result<TaskTemplate> TaskCompiler::task(const std::string& name, const std::vector<TaskOp>& ops) {
  TaskTemplate task;
  task.uses = uses_of(ops);
  std::vector<Program> programs;
  const std::vector<ShapeKey> keys =
      depends_on_shape(ops) ? workload_.shapes : std::vector<ShapeKey>{ShapeKey{}};
  for (const ShapeKey& key : keys) {
    PARBUCKLE_ASSIGN(Program program, this->program(key, task.uses, ops));
    programs.push_back(std::move(program));
  }
  task.family = family(name, std::move(programs));
  return task;
}

}  // namespace parbuckle
