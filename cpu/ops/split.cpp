#include "cpu/ops/split.h"

#include <array>
#include <cstring>

namespace parbuckle::cpu {
namespace {

constexpr std::int64_t rows_at_once = 8;
constexpr std::size_t part_count = 3;

/// Calls move(address in the fused row, address in the part's row, bytes) for every row of every part.
template <class Move>
void for_parts(Context& context,
               const Shape& part,
               float* fused,
               std::array<float*, part_count> parts,
               Move&& move) {
  const std::int64_t width = part.d1;
  const std::size_t bytes = static_cast<std::size_t>(width) * sizeof(float);
  parallel_ranges(context.team(), part.d0, rows_at_once, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::size_t i = 0; i < part_count; ++i) {
        float* const whole =
            fused +
            (row * static_cast<std::int64_t>(part_count) + static_cast<std::int64_t>(i)) * width;
        move(whole, parts[i] + row * width, bytes);
      }
    }
  });
}

Result<std::int64_t> prepare_split(Context& /*context*/, const OpShape& op) {
  const std::int64_t n = shape_of(op, 1).elements();
  PARBUCKLE_TRY(expect_elements(op, {3 * n, n, n, n}));
  return std::int64_t{0};
}

Status run_split(Context& context, const OpShape& op, const OpArgs& args) {
  for_parts(
      context,
      shape_of(op, 1),
      out<float>(args, 0),
      {out<float>(args, 1), out<float>(args, 2), out<float>(args, 3)},
      [](const float* whole, float* part, std::size_t bytes) { std::memcpy(part, whole, bytes); });
  return {};
}

Result<std::int64_t> prepare_merge(Context& /*context*/, const OpShape& op) {
  const std::int64_t n = shape_of(op, 0).elements();
  PARBUCKLE_TRY(expect_elements(op, {n, n, n, 3 * n}));
  return std::int64_t{0};
}

Status run_merge(Context& context, const OpShape& op, const OpArgs& args) {
  for_parts(
      context,
      shape_of(op, 0),
      out<float>(args, 3),
      {out<float>(args, 0), out<float>(args, 1), out<float>(args, 2)},
      [](float* whole, const float* part, std::size_t bytes) { std::memcpy(whole, part, bytes); });
  return {};
}

constexpr std::array entries{OpEntry{OpKind::split3, prepare_split, run_split},
                             OpEntry{OpKind::merge3, prepare_merge, run_merge}};

}  // namespace

std::span<const OpEntry> split_ops() {
  return entries;
}

}  // namespace parbuckle::cpu
