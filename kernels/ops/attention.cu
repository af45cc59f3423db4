#include "kernels/ops/attention.h"

#include <array>

#include "kernels/ops/attention_tiles.h"
#include "kernels/ops/warp.h"

namespace parbuckle::cuda {
namespace {

constexpr std::int64_t float_bytes = sizeof(float);

/// A block takes eight rows of queries of one head, a warp one of them; keys come in tiles of 32, one per lane, with the
/// running maximum and sum of "Online normalizer calculation for softmax" (Milakov, Gimelshein).
struct ForwardKernel {
  static constexpr int threads = attention_threads;
  AttentionSizes s;
  Visibility sees;
  Global<const float> q, k, v;
  Global<float> out, lse;

  static std::int64_t shared_bytes(const AttentionSizes& s) {
    return float_bytes *
           ((2 * key_tile + attention_warps) * s.pitch() + attention_warps * key_tile);
  }

  SIMT_DEVICE void operator()(const Thread& t) const {
    const std::int64_t tile_floats = key_tile * s.pitch();
    const std::int64_t q_floats = attention_warps * s.pitch();
    const Shared<float> keys = t.shared<float>(0, tile_floats);
    const Shared<float> values = t.shared<float>(float_bytes * tile_floats, tile_floats);
    const Shared<float> queries = t.shared<float>(float_bytes * 2 * tile_floats, q_floats);
    const Shared<float> weights =
        t.shared<float>(float_bytes * (2 * tile_floats + q_floats), attention_warps * key_tile);
    const std::int64_t first_row = t.block() * attention_warps;
    const std::int64_t head = t.block_y();
    const std::int64_t kv = head / s.group() * s.depth;
    const KeyRange all = sees.of_rows(first_row, attention_warps);
    const KeyRange mine = sees.of(first_row + t.warp());
    load_rows(t,
              q,
              first_row * s.q_width() + head * s.depth,
              s.q_width(),
              s.rows - first_row,
              attention_warps,
              s.depth,
              queries);
    float sums[most_columns] = {};
    float most = -simt::infinity;
    float total = 0;
    for (std::int64_t tile = all.first / key_tile * key_tile; tile <= all.last; tile += key_tile) {
      const std::int64_t begin = tile * s.kv_width() + kv;
      t.sync();
      load_rows(t, k, begin, s.kv_width(), s.key_rows - tile, key_tile, s.depth, keys);
      load_rows(t, v, begin, s.kv_width(), s.key_rows - tile, key_tile, s.depth, values);
      t.sync();
      const bool visible = mine.holds(tile + t.lane());
      const float product = dot(queries, t.warp() * s.pitch(), keys, t.lane() * s.pitch(), s.depth);
      const float score = visible ? product * s.scale : -simt::infinity;
      const float now = simt::larger(most, warp_max(t, score));
      const float base = now == -simt::infinity ? 0.0F : now;
      const float fade = simt::exponential(most - base);
      const float weight = visible ? simt::exponential(score - base) : 0.0F;
      total = simt::fused(total, fade, warp_sum(t, weight));
      most = now;
      weights[t.index()] = weight;
      t.sync_warp();
      SIMT_UNROLL
      for (int c = 0; c < most_columns; ++c) {
        sums[c] *= fade;
      }
      add_weighted_rows(t, weights, t.warp() * key_tile, values, s.depth, sums);
    }
    finish(t, first_row + t.warp(), mine, sums, most, total);
  }

  SIMT_DEVICE void finish(const Thread& t,
                          std::int64_t row,
                          const KeyRange& mine,
                          const float (&sums)[most_columns],
                          float most,
                          float total) const {
    if (row >= s.rows) {
      return;
    }
    const float factor = mine.empty() ? 0.0F : 1.0F / total;
    const std::int64_t head = t.block_y();
    store_columns(t, sums, factor, out, row * s.q_width() + head * s.depth, s.depth);
    if (lse && t.lane() == 0) {
      lse[row * s.heads + head] =
          mine.empty() ? 0.0F : most + static_cast<float>(simt::logarithm(double{total}));
    }
  }
};

/// Operands of both backward kernels; delta(R, heads) = sum of dout * out.
struct BackwardInputs {
  AttentionSizes s;
  Visibility sees;
  Global<const float> q, k, v, lse, dout;
};

/// dq, and delta for the other kernel: as in the forward, one warp per row of queries.
struct QueryGradient {
  static constexpr int threads = attention_threads;
  BackwardInputs in;
  Global<const float> out;
  Global<float> dq, delta;

  static std::int64_t shared_bytes(const AttentionSizes& s) {
    return float_bytes *
           ((2 * key_tile + 2 * attention_warps) * s.pitch() + attention_warps * key_tile);
  }

  SIMT_DEVICE void operator()(const Thread& t) const {
    const AttentionSizes& s = in.s;
    const std::int64_t tile_floats = key_tile * s.pitch();
    const std::int64_t q_floats = attention_warps * s.pitch();
    const Shared<float> keys = t.shared<float>(0, tile_floats);
    const Shared<float> values = t.shared<float>(float_bytes * tile_floats, tile_floats);
    const Shared<float> queries = t.shared<float>(float_bytes * 2 * tile_floats, q_floats);
    const Shared<float> douts =
        t.shared<float>(float_bytes * (2 * tile_floats + q_floats), q_floats);
    const Shared<float> slopes =
        t.shared<float>(float_bytes * (2 * tile_floats + 2 * q_floats), attention_warps * key_tile);
    const std::int64_t first_row = t.block() * attention_warps;
    const std::int64_t row = first_row + t.warp();
    const std::int64_t head = t.block_y();
    const std::int64_t begin_q = first_row * s.q_width() + head * s.depth;
    const std::int64_t left = s.rows - first_row;
    load_rows(t, in.q, begin_q, s.q_width(), left, attention_warps, s.depth, queries);
    load_rows(t, in.dout, begin_q, s.q_width(), left, attention_warps, s.depth, douts);
    t.sync();
    const KeyRange all = in.sees.of_rows(first_row, attention_warps);
    const KeyRange mine = in.sees.of(row);
    const float level = mine.empty() ? 0.0F : float{in.lse[row * s.heads + head]};
    const float mean = row < s.rows ? row_delta(t, row, douts) : 0.0F;
    float sums[most_columns] = {};
    for (std::int64_t tile = all.first / key_tile * key_tile; tile <= all.last; tile += key_tile) {
      const std::int64_t begin = tile * s.kv_width() + head / s.group() * s.depth;
      t.sync();
      load_rows(t, in.k, begin, s.kv_width(), s.key_rows - tile, key_tile, s.depth, keys);
      load_rows(t, in.v, begin, s.kv_width(), s.key_rows - tile, key_tile, s.depth, values);
      t.sync();
      const std::int64_t lane_row = t.lane() * s.pitch();
      const std::int64_t warp_row = t.warp() * s.pitch();
      const float score = dot(queries, warp_row, keys, lane_row, s.depth) * s.scale;
      const float dweight = dot(douts, warp_row, values, lane_row, s.depth);
      const bool visible = mine.holds(tile + t.lane());
      const float weight = visible ? simt::exponential(score - level) : 0.0F;
      slopes[t.index()] = visible ? weight * (dweight - mean) * s.scale : 0.0F;
      t.sync_warp();
      add_weighted_rows(t, slopes, t.warp() * key_tile, keys, s.depth, sums);
    }
    if (row < s.rows) {
      store_columns(t, sums, 1.0F, dq, row * s.q_width() + head * s.depth, s.depth);
    }
  }

  SIMT_DEVICE float row_delta(const Thread& t, std::int64_t row, const Shared<float>& douts) const {
    const AttentionSizes& s = in.s;
    const std::int64_t head = t.block_y();
    float sum = 0;
    for (std::int64_t i = t.lane(); i < s.depth; i += simt::warp_size) {
      sum = simt::fused(
          douts[t.warp() * s.pitch() + i], out[row * s.q_width() + head * s.depth + i], sum);
    }
    sum = warp_sum(t, sum);
    if (t.lane() == 0) {
      delta[row * s.heads + head] = sum;
    }
    return sum;
  }
};

/// dk and dv: one warp per row of keys of one key/value head; its query heads one after the other, queries ascending in
/// tiles of 32, one per lane.
struct KeyGradient {
  static constexpr int threads = attention_threads;
  BackwardInputs in;
  Global<const float> delta;
  Global<float> dk, dv;

  static std::int64_t shared_bytes(const AttentionSizes& s) {
    return float_bytes *
           ((2 * key_tile + 2 * attention_warps) * s.pitch() + 2 * attention_warps * key_tile);
  }

  struct Tiles {
    Shared<float> queries, douts, keys, values, weights, slopes;
  };

  SIMT_DEVICE Tiles tiles(const Thread& t) const {
    const std::int64_t tile = key_tile * in.s.pitch();
    const std::int64_t own = attention_warps * in.s.pitch();
    const std::int64_t factors = attention_warps * key_tile;
    return {t.shared<float>(0, tile),
            t.shared<float>(float_bytes * tile, tile),
            t.shared<float>(float_bytes * 2 * tile, own),
            t.shared<float>(float_bytes * (2 * tile + own), own),
            t.shared<float>(float_bytes * (2 * tile + 2 * own), factors),
            t.shared<float>(float_bytes * (2 * tile + 2 * own + factors), factors)};
  }

  SIMT_DEVICE void operator()(const Thread& t) const {
    const AttentionSizes& s = in.s;
    const Tiles shared = tiles(t);
    const std::int64_t first_key = t.block() * attention_warps;
    const std::int64_t begin = first_key * s.kv_width() + t.block_y() * s.depth;
    const std::int64_t left = s.rows - first_key;
    load_rows(t, in.k, begin, s.kv_width(), left, attention_warps, s.depth, shared.keys);
    load_rows(t, in.v, begin, s.kv_width(), left, attention_warps, s.depth, shared.values);
    float key_sums[most_columns] = {};
    float value_sums[most_columns] = {};
    for (std::int64_t member = 0; member < s.group(); ++member) {
      const std::int64_t head = t.block_y() * s.group() + member;
      for (std::int64_t tile = first_key / key_tile * key_tile; tile < s.rows; tile += key_tile) {
        const KeyRange seen = in.sees.of(tile + t.lane());
        const bool near =
            !seen.empty() && seen.first < first_key + attention_warps && seen.last >= first_key;
        if (t.any(near)) {  // the same for every warp: all look at the same rows and keys
          add_tile(t, shared, seen, {head, tile, first_key + t.warp()}, key_sums, value_sums);
        }
      }
    }
    const std::int64_t key = first_key + t.warp();
    if (key < s.rows) {
      const std::int64_t to = key * s.kv_width() + t.block_y() * s.depth;
      store_columns(t, key_sums, 1.0F, dk, to, s.depth);
      store_columns(t, value_sums, 1.0F, dv, to, s.depth);
    }
  }

  struct Place {
    std::int64_t head, first_row, key;
  };

  SIMT_DEVICE void add_tile(const Thread& t,
                            const Tiles& shared,
                            const KeyRange& seen,
                            const Place& at,
                            float (&key_sums)[most_columns],
                            float (&value_sums)[most_columns]) const {
    const AttentionSizes& s = in.s;
    const std::int64_t begin = at.first_row * s.q_width() + at.head * s.depth;
    const std::int64_t left = s.rows - at.first_row;
    t.sync();
    load_rows(t, in.q, begin, s.q_width(), left, key_tile, s.depth, shared.queries);
    load_rows(t, in.dout, begin, s.q_width(), left, key_tile, s.depth, shared.douts);
    t.sync();
    const std::int64_t lane_row = t.lane() * s.pitch();
    const std::int64_t warp_row = t.warp() * s.pitch();
    const float score = dot(shared.queries, lane_row, shared.keys, warp_row, s.depth) * s.scale;
    const float dweight = dot(shared.douts, lane_row, shared.values, warp_row, s.depth);
    float weight = 0;
    float slope = 0;
    if (seen.holds(at.key)) {
      const std::int64_t row = (at.first_row + t.lane()) * s.heads + at.head;
      weight = simt::exponential(score - in.lse[row]);
      slope = weight * (dweight - delta[row]) * s.scale;
    }
    shared.weights[t.index()] = weight;
    shared.slopes[t.index()] = slope;
    t.sync_warp();
    add_weighted_rows(t, shared.weights, t.warp() * key_tile, shared.douts, s.depth, value_sums);
    add_weighted_rows(t, shared.slopes, t.warp() * key_tile, shared.queries, s.depth, key_sums);
  }
};

AttentionSizes sizes_of(const OpShape& op, std::size_t keys) {
  return {.rows = rows_of(shape_of(op, 0)),
          .key_rows = rows_of(shape_of(op, keys)),
          .heads = op.attributes.heads,
          .kv_heads = op.attributes.kv_heads,
          .depth = op.attributes.head_dim,
          .window = op.attributes.window,
          .scale = op.attributes.scale};
}

Status check(const AttentionSizes& s) {
  if (s.depth < 1 || s.kv_heads < 1 || s.heads < 1 || s.heads % s.kv_heads != 0) {
    return invalid("attention: " + std::to_string(s.heads) + " heads over " +
                   std::to_string(s.kv_heads) +
                   " key/value heads: heads must be a multiple of key/value heads, both above 0");
  }
  if (s.depth > most_depth) {
    return unsupported("attention: head_dim " + std::to_string(s.depth) + ": at most " +
                       std::to_string(most_depth) + " on a CUDA device");
  }
  return {};
}

simt::Grid grid_of(std::int64_t rows, std::int64_t heads, std::int64_t shared_bytes) {
  return {.x = ceil_divide(rows, attention_warps), .y = heads, .shared_bytes = shared_bytes};
}

Result<std::int64_t> prepare_forward(const OpShape& op) {
  const AttentionSizes s = sizes_of(op, 1);
  PARBUCKLE_TRY(check(s));
  const std::int64_t q = s.rows * s.q_width();
  const std::int64_t kv = s.rows * s.kv_width();
  PARBUCKLE_TRY(expect_elements(op, {q, kv, kv, s.rows, q, s.rows * s.heads}));
  return std::int64_t{0};
}

Status run_forward(const Context& context, const OpShape& op, const OpArgs& args) {
  const AttentionSizes s = sizes_of(op, 1);
  return simt::launch(
      context.queue,
      grid_of(s.rows, s.heads, ForwardKernel::shared_bytes(s)),
      ForwardKernel{
          .s = s,
          .sees = {view_in<std::int32_t>(context, args, 3), {}, s.rows, s.key_rows, s.window},
          .q = view_in<float>(context, args, 0),
          .k = view_in<float>(context, args, 1),
          .v = view_in<float>(context, args, 2),
          .out = view_out<float>(context, args, 4),
          .lse = view_out<float>(context, args, 5)});
}

Result<std::int64_t> prepare_backward(const OpShape& op) {
  const AttentionSizes s = sizes_of(op, 1);
  PARBUCKLE_TRY(check(s));
  const std::int64_t q = s.rows * s.q_width();
  const std::int64_t kv = s.rows * s.kv_width();
  PARBUCKLE_TRY(expect_elements(op, {q, kv, kv, s.rows, q, s.rows * s.heads, q, q, kv, kv}));
  Pieces pieces;
  pieces.take<float>(s.rows * s.heads);
  return pieces.bytes();
}

Status run_backward(const Context& context, const OpShape& op, const OpArgs& args) {
  const AttentionSizes s = sizes_of(op, 1);
  const BackwardInputs inputs{
      .s = s,
      .sees = {view_in<std::int32_t>(context, args, 3), {}, s.rows, s.key_rows, s.window},
      .q = view_in<float>(context, args, 0),
      .k = view_in<float>(context, args, 1),
      .v = view_in<float>(context, args, 2),
      .lse = view_in<float>(context, args, 5),
      .dout = view_in<float>(context, args, 6)};
  auto* const delta = static_cast<float*>(args.workspace);
  const std::int64_t deltas = s.rows * s.heads;
  PARBUCKLE_TRY(simt::launch(context.queue,
                             grid_of(s.rows, s.heads, QueryGradient::shared_bytes(s)),
                             QueryGradient{.in = inputs,
                                           .out = view_in<float>(context, args, 4),
                                           .dq = view_out<float>(context, args, 7),
                                           .delta = context.queue.view(delta, deltas)}));
  return simt::launch(
      context.queue,
      grid_of(s.rows, s.kv_heads, KeyGradient::shared_bytes(s)),
      KeyGradient{.in = inputs,
                  .delta = context.queue.view(static_cast<const float*>(delta), deltas),
                  .dk = view_out<float>(context, args, 8),
                  .dv = view_out<float>(context, args, 9)});
}

/// Rows of keys and values to their positions in the caches.
struct StoreInCache {
  Global<const std::int32_t> positions;
  Global<const float> k, v;
  Global<float> k_cache, v_cache;
  Global<std::int64_t> faults;
  std::int64_t cached, width;
  SIMT_DEVICE void operator()(const Thread& t, std::int64_t i) const {
    const std::int64_t position = positions[i / width];
    if (position >= cached) {
      report_fault(t, faults, DataFault::position, row_fault(i / width, position));
    } else if (position >= 0) {
      k_cache[position * width + i % width] = k[i];
      v_cache[position * width + i % width] = v[i];
    }
  }
};

Result<std::int64_t> prepare_cached(const OpShape& op) {
  const AttentionSizes s = sizes_of(op, 4);
  PARBUCKLE_TRY(check(s));
  const std::int64_t q = s.rows * s.q_width();
  const std::int64_t kv = s.rows * s.kv_width();
  const std::int64_t cache = s.key_rows * s.kv_width();
  PARBUCKLE_TRY(expect_elements(op, {q, kv, kv, s.rows, cache, cache, q}));
  return std::int64_t{0};
}

Status run_cached(const Context& context, const OpShape& op, const OpArgs& args) {
  const AttentionSizes s = sizes_of(op, 4);
  const auto positions = view_in<std::int32_t>(context, args, 3);
  PARBUCKLE_TRY(for_each(context,
                         s.rows * s.kv_width(),
                         StoreInCache{.positions = positions,
                                      .k = view_in<float>(context, args, 1),
                                      .v = view_in<float>(context, args, 2),
                                      .k_cache = view_out<float>(context, args, 4),
                                      .v_cache = view_out<float>(context, args, 5),
                                      .faults = view_faults(context),
                                      .cached = s.key_rows,
                                      .width = s.kv_width()}));
  return simt::launch(context.queue,
                      grid_of(s.rows, s.heads, ForwardKernel::shared_bytes(s)),
                      ForwardKernel{.s = s,
                                    .sees = {{}, positions, s.rows, s.key_rows, s.window},
                                    .q = view_in<float>(context, args, 0),
                                    .k = view_in<float>(context, args, 4),
                                    .v = view_in<float>(context, args, 5),
                                    .out = view_out<float>(context, args, 6),
                                    .lse = {}});
}

constexpr std::array entries{OpEntry{OpKind::attention_forward, prepare_forward, run_forward},
                             OpEntry{OpKind::attention_backward, prepare_backward, run_backward},
                             OpEntry{OpKind::attention_cached, prepare_cached, run_cached}};

}  // namespace

std::span<const OpEntry> attention_ops() {
  return entries;
}

}  // namespace parbuckle::cuda
