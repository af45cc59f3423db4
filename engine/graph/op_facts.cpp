#include "engine/graph/op_facts.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "engine/base/check.h"

namespace parbuckle {
namespace {

constexpr std::size_t head_loss_fixed = 5;  // h, targets, step, loss, dh; then the parts

/// One letter per operand: r read, w write, u update. head_loss has more, see operand_access.
std::string_view accesses(OpKind kind) {
  switch (kind) {
    case OpKind::embedding_forward:
    case OpKind::rope_table:
    case OpKind::gated_forward:
    case OpKind::add:
      return "rrw";
    case OpKind::position_forward:
    case OpKind::embedding_backward:
    case OpKind::linear_backward_weight:
      return "rru";
    case OpKind::rope_forward:
    case OpKind::rope_backward:
      return "ur";
    case OpKind::linear_forward:
      return "rrwr";
    case OpKind::linear_backward_input:
    case OpKind::activation_backward:
    case OpKind::head_stats_loss:
    case OpKind::global_norm:
      return "rrw";
    case OpKind::bias_backward:
      return "ru";
    case OpKind::rms_norm_forward:
      return "rrww";
    case OpKind::rms_norm_backward:
      return "rrrrwu";
    case OpKind::layer_norm_forward:
      return "rrrwww";
    case OpKind::layer_norm_backward:
      return "rrrrrwuu";
    case OpKind::attention_forward:
      return "rrrrww";
    case OpKind::attention_backward:
      return "rrrrrrrwww";
    case OpKind::attention_cached:
      return "rrrruuw";
    case OpKind::activation_forward:
    case OpKind::copy:
    case OpKind::prepare_update:
      return "rw";
    case OpKind::gated_backward:
      return "rrrww";
    case OpKind::fill_zero:
      return "w";
    case OpKind::head_loss:
      return "rrrww";
    case OpKind::head_stats:
      return "rrrw";
    case OpKind::head_grad:
      return "rrrrurw";
    case OpKind::square_sum:
    case OpKind::row_square_sum:
      return "ru";
    case OpKind::gather_touched:
      return "rrw";
    case OpKind::row_square_sum_touched:
      return "rrru";
    case OpKind::adamw:
      return "uuurr";
    case OpKind::adamw_table:
      return "uuurrrr";
    case OpKind::split3:
      return "rwww";
    case OpKind::merge3:
      return "rrrw";
  }
  return {};
}

/// The op fills its "=" operand only where it is the first of several calls, or adds to what is there.
bool continues(OpKind kind, const Attributes& attributes) {
  if (kind == OpKind::embedding_forward || kind == OpKind::gather_touched) {
    return attributes.row_begin > 0;
  }
  if (kind == OpKind::head_stats || kind == OpKind::head_grad) {
    return !attributes.first;
  }
  return attributes.accumulate;
}

double attention_pairs(double rows, double window) {
  return window <= 0 || window >= rows ? rows * (rows + 1) / 2
                                       : window * (window + 1) / 2 + (rows - window) * window;
}

double attention_flops(const OpShape& op, double products) {
  const auto width = static_cast<double>(op.operands[0].d1);
  const auto rows = static_cast<double>(op.operands[0].d0);
  return products * 2 * width * attention_pairs(rows, op.attributes.window);
}

double product(const Shape& rows, const Shape& matrix) {
  return 2 * static_cast<double>(rows.d0) * static_cast<double>(matrix.elements());
}

}  // namespace

Access operand_access(OpKind kind, const Attributes& attributes, std::size_t index) {
  if (kind == OpKind::head_loss && index >= head_loss_fixed) {
    const bool part = index < head_loss_fixed + static_cast<std::size_t>(attributes.parts);
    return part ? Access::read : Access::update;
  }
  // Without a dense gradient its operand is left out, and those behind it move up.
  if (kind == OpKind::row_square_sum_touched && attributes.row_begin < 0) {
    return index < 2 ? Access::read : Access::update;
  }
  const std::string_view letters = accesses(kind);
  PARBUCKLE_CHECK(index < letters.size(), to_string(kind).data());
  switch (letters[index]) {
    case 'r':
      return Access::read;
    case 'w':
      return continues(kind, attributes) ? Access::update : Access::write;
    default:
      return Access::update;
  }
}

bool is_cheap(OpKind kind) {
  constexpr std::array cheap = {OpKind::rope_forward,
                                OpKind::rms_norm_forward,
                                OpKind::layer_norm_forward,
                                OpKind::activation_forward,
                                OpKind::gated_forward,
                                OpKind::add,
                                OpKind::split3};
  return std::find(cheap.begin(), cheap.end(), kind) != cheap.end();
}

double flops_of(const OpShape& op) {
  const auto& o = op.operands;
  const OpKind kind = op.kind;
  if (kind == OpKind::linear_forward || kind == OpKind::linear_backward_input) {
    return product(o[0], o[1]);
  }
  if (kind == OpKind::linear_backward_weight || kind == OpKind::head_stats) {
    return product(o[0], o[2]);
  }
  if (kind == OpKind::head_grad) {
    return 3 * product(o[0], o[3]);
  }
  if (kind == OpKind::head_loss) {
    double sum = 0;
    for (std::size_t p = 0; p < static_cast<std::size_t>(op.attributes.parts); ++p) {
      sum += 3 * product(o[0], o[head_loss_fixed + p]);
    }
    return sum;
  }
  if (kind == OpKind::attention_forward || kind == OpKind::attention_backward) {
    return attention_flops(op, kind == OpKind::attention_forward ? 2 : 5);
  }
  if (kind == OpKind::attention_cached) {
    return 4 * static_cast<double>(o[0].elements()) * static_cast<double>(o[4].d0);
  }
  return 0;
}

}  // namespace parbuckle
