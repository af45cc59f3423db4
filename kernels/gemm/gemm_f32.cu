#include "kernels/gemm/gemm_f32.h"

namespace parbuckle::cuda {
namespace {

using simt::Global;
using simt::Shared;
using simt::Thread;

// 256 threads with 4 x 4 sums each: every value read from shared memory serves four products.
constexpr int tile = 64;
constexpr int depth = 16;
constexpr int per_thread = 4;
constexpr int padded = tile + 4;  // so that a column of the tile does not fall into one bank

/// An operand as seen by the kernel: `rows` along the tile, k across.
struct Panel {
  Global<const float> data;
  std::int64_t rows;
  std::int64_t row_stride;
  std::int64_t k_stride;
};

struct GemmKernel {
  static constexpr int threads = 256;
  static constexpr std::int64_t shared_bytes = 2 * depth * padded * sizeof(float);

  Panel a, b;
  Global<float> c;
  Global<const float> bias;
  std::int64_t k;
  std::int64_t c_row_stride;
  bool accumulate;

  SIMT_DEVICE void operator()(const Thread& t) const {
    const Shared<float> a_tile = t.shared<float>(0, depth * padded);
    const Shared<float> b_tile = t.shared<float>(depth * padded * sizeof(float), depth * padded);
    const std::int64_t row = t.block_y() * tile;
    const std::int64_t column = t.block() * tile;
    float sums[per_thread][per_thread] = {};
    for (std::int64_t begin = 0; begin < k; begin += depth) {
      load(t, a, row, begin, a_tile);
      load(t, b, column, begin, b_tile);
      t.sync();
      multiply(t, a_tile, b_tile, sums);
      t.sync();
    }
    store(t, row, column, sums);
  }

  /// tile[k][row] = panel; zeros outside. Neighbouring threads take neighbouring addresses.
  SIMT_DEVICE void load(const Thread& t,
                        const Panel& panel,
                        std::int64_t first_row,
                        std::int64_t first_k,
                        const Shared<float>& to) const {
    for (int e = t.index(); e < tile * depth; e += threads) {
      const bool along_k = panel.k_stride == 1;
      const int in_row = along_k ? e / depth : e % tile;
      const int in_k = along_k ? e % depth : e / tile;
      const std::int64_t row = first_row + in_row;
      const std::int64_t at_k = first_k + in_k;
      float value = 0;
      if (row < panel.rows && at_k < k) {
        value = panel.data[row * panel.row_stride + at_k * panel.k_stride];
      }
      to[in_k * padded + in_row] = value;
    }
  }

  /// Sums of 16 products from zero, then added: the error grows with k / 16, not with k.
  SIMT_DEVICE static void multiply(const Thread& t,
                                   const Shared<float>& a_tile,
                                   const Shared<float>& b_tile,
                                   float (&sums)[per_thread][per_thread]) {
    const int row = t.index() / (tile / per_thread) * per_thread;
    const int column = t.index() % (tile / per_thread) * per_thread;
    float chunk[per_thread][per_thread] = {};
    SIMT_UNROLL
    for (int at_k = 0; at_k < depth; ++at_k) {
      float left[per_thread];
      float right[per_thread];
      SIMT_UNROLL
      for (int i = 0; i < per_thread; ++i) {
        left[i] = a_tile[at_k * padded + row + i];
        right[i] = b_tile[at_k * padded + column + i];
      }
      SIMT_UNROLL
      for (int i = 0; i < per_thread; ++i) {
        SIMT_UNROLL
        for (int j = 0; j < per_thread; ++j) {
          chunk[i][j] = simt::fused(left[i], right[j], chunk[i][j]);
        }
      }
    }
    SIMT_UNROLL
    for (int i = 0; i < per_thread; ++i) {
      SIMT_UNROLL
      for (int j = 0; j < per_thread; ++j) {
        sums[i][j] += chunk[i][j];
      }
    }
  }

  SIMT_DEVICE void store(const Thread& t,
                         std::int64_t first_row,
                         std::int64_t first_column,
                         const float (&sums)[per_thread][per_thread]) const {
    const std::int64_t row = first_row + t.index() / (tile / per_thread) * per_thread;
    const std::int64_t column = first_column + t.index() % (tile / per_thread) * per_thread;
    SIMT_UNROLL
    for (int i = 0; i < per_thread; ++i) {
      SIMT_UNROLL
      for (int j = 0; j < per_thread; ++j) {
        if (row + i < a.rows && column + j < b.rows) {
          const std::int64_t at = (row + i) * c_row_stride + column + j;
          float value = sums[i][j];
          if (bias) {
            value += bias[column + j];
          }
          c[at] = accumulate ? c[at] + value : value;
        }
      }
    }
  }
};

}  // namespace

Status gemm_f32(const simt::Queue& queue, const GemmF32& g) {
  const auto blocks = [](std::int64_t size) { return (size + tile - 1) / tile; };
  if (g.m == 0 || g.n == 0) {
    return {};
  }
  return simt::launch(
      queue,
      {.x = blocks(g.n), .y = blocks(g.m), .shared_bytes = GemmKernel::shared_bytes},
      GemmKernel{.a = {queue.view(g.a.data, g.a.elements), g.m, g.a.row_stride, g.a.column_stride},
                 .b = {queue.view(g.b.data, g.b.elements), g.n, g.b.column_stride, g.b.row_stride},
                 .c = queue.view(g.c.data, g.c.elements),
                 .bias = queue.view(g.bias, g.bias == nullptr ? 0 : g.n),
                 .k = g.k,
                 .c_row_stride = g.c.row_stride,
                 .accumulate = g.accumulate});
}

}  // namespace parbuckle::cuda
