// The inner loops that are compiled once per instruction set and chosen at run time. Both builds give the same bits.
// A kernel works on one row, one tile or one range; splitting the work over threads is the caller's job.
#pragma once

#include <cstdint>

#include "engine/base/op.h"

namespace parbuckle::cpu {

/// Rows of queries and of keys that attention handles at a time; part of the numeric signature.
inline constexpr std::int64_t attention_tile = 64;

/// A matrix inside another: rows of `columns` floats, `stride` apart.
struct RowsView {
  const float* data = nullptr;
  std::int64_t stride = 0;
  [[nodiscard]] const float* row(std::int64_t i) const { return data + i * stride; }
};
struct MutableRows {
  float* data = nullptr;
  std::int64_t stride = 0;
  [[nodiscard]] float* row(std::int64_t i) const { return data + i * stride; }
};

/// What one head of attention sees. first_key[i] is the first row that row i may see (through segment and window),
/// or `rows` for a padding row; it sees first_key[i] .. i.
struct AttentionHead {
  RowsView q;
  RowsView k;
  RowsView v;
  const float* k_transposed =
      nullptr;  // per tile of keys: (head_dim, attention_tile), zero where no key is
  const std::int32_t* first_key = nullptr;
  std::int64_t rows = 0;
  std::int64_t head_dim = 0;
  float scale = 1;
};

struct AttentionForwardTile {
  AttentionHead head;
  std::int64_t tile = 0;  // of queries
  MutableRows out;
  float* lse = nullptr;  // lse of row i at lse[i * lse_stride]
  std::int64_t lse_stride = 1;
  float* scratch = nullptr;  // attention_tile * (attention_tile + head_dim + 2) floats
};

/// One head over tiles first_tile .. end_tile - 1, whose rows see none before and are seen by none after.
struct AttentionBackwardRange {
  AttentionHead head;
  std::int64_t first_tile = 0;
  std::int64_t end_tile = 0;
  const float* v_transposed = nullptr;  // as k_transposed
  RowsView out;
  RowsView dout;
  const float* lse = nullptr;
  std::int64_t lse_stride = 1;
  MutableRows dq;  // of the three outputs the range is written whole
  MutableRows dk;
  MutableRows dv;
  float* delta = nullptr;    // rows floats
  float* scratch = nullptr;  // 2 * attention_tile * attention_tile floats
};

/// One query row against a cache of keys and values, rows first .. last.
struct AttentionCachedRow {
  const float* q = nullptr;
  RowsView k;
  RowsView v;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t head_dim = 0;
  float scale = 1;
  float* out = nullptr;
  float* scores = nullptr;  // last - first + 1 floats
};

/// Rows of both norms; b, mean and db are of layer_norm alone.
struct NormForward {
  const float* x = nullptr;
  const float* w = nullptr;
  const float* b = nullptr;
  float* y = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  float eps = 0;
};

struct NormBackward {
  const float* x = nullptr;
  const float* w = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  float* dw = nullptr;  // added to
  float* db = nullptr;  // added to
  std::int64_t rows = 0;
  std::int64_t width = 0;
  bool accumulate = false;
};

struct ActivationBackward {
  const float* x = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  std::int64_t count = 0;
};

struct GatedForward {
  const float* gate = nullptr;
  const float* up = nullptr;
  float* y = nullptr;
  std::int64_t count = 0;
};

struct GatedBackward {
  const float* gate = nullptr;
  const float* up = nullptr;
  const float* dy = nullptr;
  float* dgate = nullptr;
  float* dup = nullptr;
  std::int64_t count = 0;
};

struct AdamwRange {
  float* w = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  const float* g = nullptr;        // nullptr: 0
  const float* g_extra = nullptr;  // added to g; nullptr: 0
  std::int64_t count = 0;
};

struct Kernels {
  const char* name;

  void (*pack_transposed)(RowsView from, std::int64_t count, std::int64_t depth, float* to);
  void (*attention_forward)(const AttentionForwardTile& tile);
  void (*attention_backward)(const AttentionBackwardRange& range);
  void (*attention_cached)(const AttentionCachedRow& row);

  void (*rms_norm_forward)(const NormForward& norm);
  void (*rms_norm_backward)(const NormBackward& norm);
  void (*layer_norm_forward)(const NormForward& norm);
  void (*layer_norm_backward)(const NormBackward& norm);

  void (*activation_forward)(Activation kind, const float* x, float* y, std::int64_t n);
  void (*activation_backward)(Activation kind, const ActivationBackward& range);
  void (*gated_forward)(Activation kind, const GatedForward& range);
  void (*gated_backward)(Activation kind, const GatedBackward& range);

  float (*largest)(const float* x, std::int64_t n);
  float (*sum_of_exponentials)(const float* x, std::int64_t n, float shift);  // of e^(x - shift)
  float (*exponentials)(float* x, std::int64_t n, float shift);  // the same, x replaced by them
  void (*scale)(float* x, std::int64_t n, float factor);

  void (*add)(const float* a, const float* b, float* y, std::int64_t n);
  void (*rope)(float* x, const float* table, std::int64_t heads, std::int64_t head_dim, float sign);
  double (*square_sum)(const float* a,
                       const float* b,
                       std::int64_t n);  // of a + b; b may be nullptr
  bool (*adamw)(const AdamwRange& range, const UpdateScalars& update, bool decay);
};

enum class Isa { avx2, avx512 };

/// What the processor offers of the two.
Isa best_isa();

/// The loops built for `isa`. REQUIRES: the processor has it.
const Kernels& kernels_for(Isa isa);

}  // namespace parbuckle::cpu
