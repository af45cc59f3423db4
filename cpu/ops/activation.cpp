#include "cpu/ops/activation.h"

#include <array>

namespace parbuckle::cpu {
namespace {

constexpr std::int64_t piece = 4096;  // elements: what is worth a thread

template <std::size_t operands>
Result<std::int64_t> prepare(Context& /*context*/, const OpShape& op) {
  PARBUCKLE_TRY(expect_alike(op, operands));
  return std::int64_t{0};
}

/// body(begin, count) over pieces of the first operand's elements.
template <class F>
void over_elements(Context& context, const OpShape& op, const F& body) {
  parallel_ranges(
      context.team(), shape_of(op, 0).elements(), piece, [&](std::int64_t begin, std::int64_t end) {
        body(begin, end - begin);
      });
}

Status run_forward(Context& context, const OpShape& op, const OpArgs& args) {
  const auto* const x = in<float>(args, 0);
  auto* const y = out<float>(args, 1);
  over_elements(context, op, [&](std::int64_t at, std::int64_t count) {
    context.kernels().activation_forward(op.attributes.activation, x + at, y + at, count);
  });
  return {};
}

Status run_backward(Context& context, const OpShape& op, const OpArgs& args) {
  const auto* const x = in<float>(args, 0);
  const auto* const dy = in<float>(args, 1);
  auto* const dx = out<float>(args, 2);
  over_elements(context, op, [&](std::int64_t at, std::int64_t count) {
    context.kernels().activation_backward(
        op.attributes.activation, {.x = x + at, .dy = dy + at, .dx = dx + at, .count = count});
  });
  return {};
}

Status run_gated_forward(Context& context, const OpShape& op, const OpArgs& args) {
  const auto* const gate = in<float>(args, 0);
  const auto* const up = in<float>(args, 1);
  auto* const y = out<float>(args, 2);
  over_elements(context, op, [&](std::int64_t at, std::int64_t count) {
    context.kernels().gated_forward(
        op.attributes.activation, {.gate = gate + at, .up = up + at, .y = y + at, .count = count});
  });
  return {};
}

Status run_gated_backward(Context& context, const OpShape& op, const OpArgs& args) {
  const auto* const gate = in<float>(args, 0);
  const auto* const up = in<float>(args, 1);
  const auto* const dy = in<float>(args, 2);
  auto* const dgate = out<float>(args, 3);
  auto* const dup = out<float>(args, 4);
  over_elements(context, op, [&](std::int64_t at, std::int64_t count) {
    context.kernels().gated_backward(op.attributes.activation,
                                     {.gate = gate + at,
                                      .up = up + at,
                                      .dy = dy + at,
                                      .dgate = dgate + at,
                                      .dup = dup + at,
                                      .count = count});
  });
  return {};
}

constexpr std::array entries{OpEntry{OpKind::activation_forward, prepare<2>, run_forward},
                             OpEntry{OpKind::activation_backward, prepare<3>, run_backward},
                             OpEntry{OpKind::gated_forward, prepare<3>, run_gated_forward},
                             OpEntry{OpKind::gated_backward, prepare<5>, run_gated_backward}};

}  // namespace

std::span<const OpEntry> activation_ops() {
  return entries;
}

}  // namespace parbuckle::cpu
