#include "cpu/ops/attention.h"

#include <algorithm>
#include <array>

namespace parbuckle::cpu {
namespace {

struct Sizes {
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t depth = 0;  // of a head
  [[nodiscard]] std::int64_t tiles() const { return (rows + attention_tile - 1) / attention_tile; }
  [[nodiscard]] std::int64_t group() const { return heads / kv_heads; }
  [[nodiscard]] std::int64_t q_width() const { return heads * depth; }
  [[nodiscard]] std::int64_t kv_width() const { return kv_heads * depth; }
  /// Of one head's keys, transposed tile by tile.
  [[nodiscard]] std::int64_t packed() const { return tiles() * attention_tile * depth; }
};

Sizes sizes_of(const OpShape& op) {
  return {.rows = rows_of(shape_of(op, 0)),
          .heads = op.attributes.heads,
          .kv_heads = op.attributes.kv_heads,
          .depth = op.attributes.head_dim};
}

Status check(const Sizes& s) {
  if (s.depth < 1 || s.kv_heads < 1 || s.heads < 1 || s.heads % s.kv_heads != 0) {
    return invalid("attention: " + std::to_string(s.heads) + " heads over " +
                   std::to_string(s.kv_heads) +
                   " key/value heads: heads must be a multiple of key/value heads, both above 0");
  }
  return {};
}

/// First row that row i may see; `rows` for a padding row.
void first_keys(const Sizes& s, std::int64_t window, const std::int32_t* begins, std::int32_t* to) {
  for (std::int64_t i = 0; i < s.rows; ++i) {
    const std::int64_t in_window = window > 0 ? std::max<std::int64_t>(0, i - window + 1) : 0;
    const std::int64_t first =
        begins[i] < 0 ? s.rows : std::max<std::int64_t>(begins[i], in_window);
    to[i] = static_cast<std::int32_t>(first);
  }
}

/// (R, kv_heads * D) to one packed transpose per key/value head.
void pack(const Context& context, const Sizes& s, const float* from, float* to) {
  parallel_for(context.team(), s.kv_heads * s.tiles(), [&](std::int64_t item, int /*thread*/) {
    const std::int64_t head = item / s.tiles();
    const std::int64_t row = item % s.tiles() * attention_tile;
    context.kernels().pack_transposed(
        {.data = from + row * s.kv_width() + head * s.depth, .stride = s.kv_width()},
        std::min(attention_tile, s.rows - row),
        s.depth,
        to + head * s.packed() + row * s.depth);
  });
}

struct ForwardWorkspace {
  std::int32_t* first_key;
  float* k_transposed;
  float* scratch;  // of each thread
};

std::int64_t forward_scratch(const Sizes& s) {
  return attention_tile * (attention_tile + s.depth + 2);
}

ForwardWorkspace carve_forward(Pieces& pieces, const Sizes& s, int threads) {
  return {.first_key = pieces.take<std::int32_t>(s.rows),
          .k_transposed = pieces.take<float>(s.kv_heads * s.packed()),
          .scratch = pieces.take<float>(threads * forward_scratch(s))};
}

Result<std::int64_t> prepare_forward(Context& context, const OpShape& op) {
  const Sizes s = sizes_of(op);
  PARBUCKLE_TRY(check(s));
  const std::int64_t q = s.rows * s.q_width();
  const std::int64_t kv = s.rows * s.kv_width();
  PARBUCKLE_TRY(expect_elements(op, {q, kv, kv, s.rows, q, s.rows * s.heads}));
  Pieces pieces;
  carve_forward(pieces, s, context.team().threads());
  return pieces.bytes();
}

AttentionHead head_of(const Sizes& s,
                      const OpShape& op,
                      const OpArgs& args,
                      std::int64_t head,
                      const ForwardWorkspace& w) {
  const std::int64_t kv = head / s.group();
  return {.q = {in<float>(args, 0) + head * s.depth, s.q_width()},
          .k = {in<float>(args, 1) + kv * s.depth, s.kv_width()},
          .v = {in<float>(args, 2) + kv * s.depth, s.kv_width()},
          .k_transposed = w.k_transposed + kv * s.packed(),
          .first_key = w.first_key,
          .rows = s.rows,
          .head_dim = s.depth,
          .scale = op.attributes.scale};
}

Status run_forward(Context& context, const OpShape& op, const OpArgs& args) {
  const Sizes s = sizes_of(op);
  Pieces pieces(args.workspace);
  const ForwardWorkspace w = carve_forward(pieces, s, context.team().threads());
  first_keys(s, op.attributes.window, in<std::int32_t>(args, 3), w.first_key);
  pack(context, s, in<float>(args, 1), w.k_transposed);
  auto* const to = out<float>(args, 4);
  auto* const lse = out<float>(args, 5);
  // Later tiles of queries see more keys, so they come first.
  parallel_for_uneven(context.team(), s.heads * s.tiles(), [&](std::int64_t item, int thread) {
    const std::int64_t head = item % s.heads;
    context.kernels().attention_forward({.head = head_of(s, op, args, head, w),
                                         .tile = s.tiles() - 1 - item / s.heads,
                                         .out = {to + head * s.depth, s.q_width()},
                                         .lse = lse + head,
                                         .lse_stride = s.heads,
                                         .scratch = w.scratch + thread * forward_scratch(s)});
  });
  return {};
}

struct BackwardWorkspace {
  ForwardWorkspace common;
  std::int32_t* range_begins;  // see independent_ranges
  float* v_transposed;
  float* delta;       // per head
  float* dk_by_head;  // (heads, R, D) where several heads share a key: added up in order at the end
  float* dv_by_head;
};

constexpr std::int64_t backward_scratch = 2 * attention_tile * attention_tile;

BackwardWorkspace carve_backward(Pieces& pieces, const Sizes& s, int threads) {
  const std::int64_t by_head = s.group() > 1 ? s.rows * s.q_width() : 0;
  return {.common = {.first_key = pieces.take<std::int32_t>(s.rows),
                     .k_transposed = pieces.take<float>(s.kv_heads * s.packed()),
                     .scratch = pieces.take<float>(threads * backward_scratch)},
          .range_begins = pieces.take<std::int32_t>(s.tiles()),
          .v_transposed = pieces.take<float>(s.kv_heads * s.packed()),
          .delta = pieces.take<float>(s.heads * s.rows),
          .dk_by_head = pieces.take<float>(by_head),
          .dv_by_head = pieces.take<float>(by_head)};
}

Result<std::int64_t> prepare_backward(Context& context, const OpShape& op) {
  const Sizes s = sizes_of(op);
  PARBUCKLE_TRY(check(s));
  const std::int64_t q = s.rows * s.q_width();
  const std::int64_t kv = s.rows * s.kv_width();
  PARBUCKLE_TRY(expect_elements(op, {q, kv, kv, s.rows, q, s.rows * s.heads, q, q, kv, kv}));
  Pieces pieces;
  carve_backward(pieces, s, context.team().threads());
  return pieces.bytes();
}

/// Where one head's gradient of keys or values goes.
MutableRows gradient_rows(const Sizes& s, float* shared, float* by_head, std::int64_t head) {
  return s.group() > 1 ? MutableRows{by_head + head * s.rows * s.depth, s.depth}
                       : MutableRows{shared + head * s.depth, s.kv_width()};
}

/// to(R, kv_heads * D) = sums over the heads of each group, ascending.
void add_groups(const Context& context, const Sizes& s, const float* by_head, float* to) {
  parallel_for(context.team(), s.rows * s.kv_heads, [&](std::int64_t item, int /*thread*/) {
    const std::int64_t row = item / s.kv_heads;
    const std::int64_t kv = item % s.kv_heads;
    float* const sum = to + item * s.depth;
    const float* const first = by_head + (kv * s.group() * s.rows + row) * s.depth;
    std::copy_n(first, s.depth, sum);
    for (std::int64_t member = 1; member < s.group(); ++member) {
      context.kernels().add(sum, first + member * s.rows * s.depth, sum, s.depth);
    }
  });
}

/// Cuts the tiles into ranges that do not see each other, the last range first; begins[r] is the first tile of range
/// r. Where the cuts fall does not change the order of any sum. Returns how many ranges there are.
std::int64_t independent_ranges(const Sizes& s,
                                const std::int32_t* first_key,
                                std::int32_t* begins) {
  std::int64_t count = 0;
  std::int64_t first_seen = s.rows;  // by any row from the current tile on
  for (std::int64_t row = s.rows - 1; row >= 0; --row) {
    first_seen = std::min<std::int64_t>(first_seen, first_key[row]);
    if (row % attention_tile == 0 && first_seen >= row) {
      begins[count++] = static_cast<std::int32_t>(row / attention_tile);
    }
  }
  return count;
}

void run_range(const Context& context,
               const OpShape& op,
               const OpArgs& args,
               const BackwardWorkspace& w,
               AttentionBackwardRange range,
               std::int64_t head) {
  const Sizes s = sizes_of(op);
  const std::int64_t at = head * s.depth;
  range.head = head_of(s, op, args, head, w.common);
  range.v_transposed = w.v_transposed + head / s.group() * s.packed();
  range.out = {in<float>(args, 4) + at, s.q_width()};
  range.lse = in<float>(args, 5) + head;
  range.lse_stride = s.heads;
  range.dout = {in<float>(args, 6) + at, s.q_width()};
  range.dq = {out<float>(args, 7) + at, s.q_width()};
  range.dk = gradient_rows(s, out<float>(args, 8), w.dk_by_head, head);
  range.dv = gradient_rows(s, out<float>(args, 9), w.dv_by_head, head);
  range.delta = w.delta + head * s.rows;
  context.kernels().attention_backward(range);
}

Status run_backward(Context& context, const OpShape& op, const OpArgs& args) {
  const Sizes s = sizes_of(op);
  Pieces pieces(args.workspace);
  const BackwardWorkspace w = carve_backward(pieces, s, context.team().threads());
  first_keys(s, op.attributes.window, in<std::int32_t>(args, 3), w.common.first_key);
  const std::int64_t ranges = independent_ranges(s, w.common.first_key, w.range_begins);
  pack(context, s, in<float>(args, 1), w.common.k_transposed);
  pack(context, s, in<float>(args, 2), w.v_transposed);
  parallel_for_uneven(context.team(), ranges * s.heads, [&](std::int64_t item, int thread) {
    const std::int64_t r = item / s.heads;
    const AttentionBackwardRange range{.first_tile = w.range_begins[r],
                                       .end_tile = r == 0 ? s.tiles() : w.range_begins[r - 1],
                                       .scratch = w.common.scratch + thread * backward_scratch};
    run_range(context, op, args, w, range, item % s.heads);
  });
  if (s.group() > 1) {
    add_groups(context, s, w.dk_by_head, out<float>(args, 8));
    add_groups(context, s, w.dv_by_head, out<float>(args, 9));
  }
  return {};
}

Result<std::int64_t> prepare_cached(Context& context, const OpShape& op) {
  const Sizes s = sizes_of(op);
  PARBUCKLE_TRY(check(s));
  const std::int64_t q = s.rows * s.q_width();
  const std::int64_t kv = s.rows * s.kv_width();
  const std::int64_t cached = rows_of(shape_of(op, 4));
  const std::int64_t cache = cached * s.kv_width();
  PARBUCKLE_TRY(expect_elements(op, {q, kv, kv, s.rows, cache, cache, q}));
  Pieces pieces;
  pieces.take<float>(context.team().threads() * cached);
  return pieces.bytes();
}

Status run_cached(Context& context, const OpShape& op, const OpArgs& args) {
  const Sizes s = sizes_of(op);
  const std::int64_t cached = rows_of(shape_of(op, 4));
  const auto* const positions = in<std::int32_t>(args, 3);
  auto* const k_cache = out<float>(args, 4);
  auto* const v_cache = out<float>(args, 5);
  auto* const to = out<float>(args, 6);
  for (std::int64_t row = 0; row < s.rows; ++row) {
    const std::int64_t position = positions[row];
    if (position >= cached) {
      return invalid("position " + std::to_string(position) + ": the key/value cache has " +
                     std::to_string(cached) + " rows");
    }
    if (position >= 0) {
      const std::int64_t width = s.kv_width();
      std::copy_n(in<float>(args, 1) + row * width, width, k_cache + position * width);
      std::copy_n(in<float>(args, 2) + row * width, width, v_cache + position * width);
    }
  }
  auto* const scores = Pieces(args.workspace).take<float>(context.team().threads() * cached);
  parallel_for_uneven(context.team(), s.rows * s.heads, [&](std::int64_t item, int thread) {
    const std::int64_t last = positions[item / s.heads];
    if (last < 0) {
      std::fill_n(to + item * s.depth, s.depth, 0.0F);
      return;
    }
    const std::int64_t kv = item % s.heads / s.group() * s.depth;
    const std::int64_t window = op.attributes.window;
    context.kernels().attention_cached(
        {.q = in<float>(args, 0) + item * s.depth,
         .k = {k_cache + kv, s.kv_width()},
         .v = {v_cache + kv, s.kv_width()},
         .first = window > 0 ? std::max<std::int64_t>(0, last - window + 1) : 0,
         .last = last,
         .head_dim = s.depth,
         .scale = op.attributes.scale,
         .out = to + item * s.depth,
         .scores = scores + thread * cached});
  });
  return {};
}

constexpr std::array entries{OpEntry{OpKind::attention_forward, prepare_forward, run_forward},
                             OpEntry{OpKind::attention_backward, prepare_backward, run_backward},
                             OpEntry{OpKind::attention_cached, prepare_cached, run_cached}};

}  // namespace

std::span<const OpEntry> attention_ops() {
  return entries;
}

}  // namespace parbuckle::cpu
