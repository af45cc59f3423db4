#include "cpu/ops/elementwise.h"

#include <array>
#include <cstring>

namespace parbuckle::cpu {
namespace {

constexpr std::int64_t piece = 4096;  // elements: one page of work at least

Result<std::int64_t> prepare_add(Context& /*context*/, const OpShape& op) {
  const std::int64_t n = shape_of(op, 0).elements();
  PARBUCKLE_TRY(expect_elements(op, {n, n, n}));
  return std::int64_t{0};
}

Status run_add(Context& context, const OpShape& op, const OpArgs& args) {
  const auto* const a = in<float>(args, 0);
  const auto* const b = in<float>(args, 1);
  auto* const y = out<float>(args, 2);
  parallel_ranges(
      context.team(), shape_of(op, 0).elements(), piece, [&](std::int64_t begin, std::int64_t end) {
        context.kernels().add(a + begin, b + begin, y + begin, end - begin);
      });
  return {};
}

Result<std::int64_t> prepare_copy(Context& /*context*/, const OpShape& op) {
  PARBUCKLE_TRY(expect_elements(op, {any_size, shape_of(op, 0).elements()}));
  return std::int64_t{0};
}

Status run_copy(Context& context, const OpShape& op, const OpArgs& args) {
  const std::int64_t width = size_of(args.operands[0].dtype);
  const auto* const x = in<std::byte>(args, 0);
  auto* const y = out<std::byte>(args, 1);
  parallel_ranges(
      context.team(), shape_of(op, 0).elements(), piece, [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(
            y + begin * width, x + begin * width, static_cast<std::size_t>((end - begin) * width));
      });
  return {};
}

Result<std::int64_t> prepare_fill_zero(Context& /*context*/, const OpShape& op) {
  PARBUCKLE_TRY(expect_elements(op, {any_size}));
  return std::int64_t{0};
}

Status run_fill_zero(Context& context, const OpShape& op, const OpArgs& args) {
  const std::int64_t width = size_of(args.operands[0].dtype);
  auto* const x = out<std::byte>(args, 0);
  parallel_ranges(
      context.team(), shape_of(op, 0).elements(), piece, [&](std::int64_t begin, std::int64_t end) {
        std::memset(x + begin * width, 0, static_cast<std::size_t>((end - begin) * width));
      });
  return {};
}

constexpr std::array entries{OpEntry{OpKind::add, prepare_add, run_add},
                             OpEntry{OpKind::copy, prepare_copy, run_copy},
                             OpEntry{OpKind::fill_zero, prepare_fill_zero, run_fill_zero}};

}  // namespace

std::span<const OpEntry> elementwise_ops() {
  return entries;
}

}  // namespace parbuckle::cpu
