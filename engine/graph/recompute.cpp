#include "engine/graph/recompute.h"

#include <cstddef>
#include <map>

#include "engine/graph/op_facts.h"

namespace parbuckle {
namespace {

/// Which forward ops write (or update) each value.
std::map<ValueId, std::vector<std::size_t>> writers_of(const GraphUnit& unit) {
  std::map<ValueId, std::vector<std::size_t>> writers;
  for (std::size_t i = 0; i < unit.forward.size(); ++i) {
    const GraphOp& op = unit.forward[i];
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      if (operand_access(op.kind, op.attributes, o) != Access::read) {
        writers[op.operands[o].value].push_back(i);
      }
    }
  }
  return writers;
}

std::vector<ValueId> read_by(const std::vector<GraphOp>& ops) {
  std::vector<ValueId> values;
  for (const GraphOp& op : ops) {
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      if (operand_access(op.kind, op.attributes, o) != Access::write) {
        values.push_back(op.operands[o].value);
      }
    }
  }
  return values;
}

}  // namespace

std::vector<ValueId> saved_values(const GraphUnit& unit) {
  const auto writers = writers_of(unit);
  std::set<ValueId> saved;
  std::set<ValueId> seen;
  std::vector<ValueId> open = read_by(unit.backward);
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    const auto found = writers.find(value);
    if (found == writers.end() || !seen.insert(value).second) {
      continue;
    }
    if (!is_cheap(unit.forward[found->second.front()].kind)) {
      saved.insert(value);
      continue;
    }
    for (const std::size_t i : found->second) {
      const std::vector<ValueId> inputs = read_by({unit.forward[i]});
      open.insert(open.end(), inputs.begin(), inputs.end());
    }
  }
  return {saved.begin(), saved.end()};
}

std::vector<GraphOp> ops_to_redo(const GraphUnit& unit, const std::set<ValueId>& available) {
  const auto writers = writers_of(unit);
  std::set<std::size_t> redo;
  std::vector<ValueId> open = read_by(unit.backward);
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    const auto found = writers.find(value);
    if (found == writers.end() || available.count(value) != 0) {
      continue;
    }
    for (const std::size_t i : found->second) {
      if (redo.insert(i).second) {
        const std::vector<ValueId> inputs = read_by({unit.forward[i]});
        open.insert(open.end(), inputs.begin(), inputs.end());
      }
    }
  }
  std::vector<GraphOp> ops;
  for (const std::size_t i : redo) {
    ops.push_back(unit.forward[i]);
  }
  return ops;
}

}  // namespace parbuckle
