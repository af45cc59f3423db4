// What can be computed: the kinds of operators, their operands in order, and the table through which a
// device offers them. This page is the specification; cpu/ops and kernels/ops implement it.
//
// Letters: R rows (tokens of one micro-batch, padded to its ShapeKey), H width of the residual stream,
// n heads, k key/value heads, D head_dim, Q = n*D, K = k*D, F intermediate width, V rows of one table part,
// U touched rows of a table in a step, T rows of a key/value cache. All matrices are dense and row-major.
// "+=" operands are read and written (accumulated in ascending call order); "=" operands are only written.
// A padding row has token -1, position -1, segment_begin -1, target -1, slot -1.
//
// kind                      operands, in order
// embedding_forward         tokens i32(R), table(V,H), out(R,H)=     attr row_begin: writes the rows whose token lies in
//                                                                    [row_begin, row_begin+V); row_begin 0 also zeroes padding rows
// position_forward          positions i32(R), table(V,H), out(R,H)+=  out += table[position]; padding rows untouched
// embedding_backward        slots i32(R), dy(R,H), grad(U,H)+=        grad[slots[r]] += dy[r], rows ascending; slot -1 skipped
// rope_table                positions i32(R), inv_freq f32(D/2), table(R,D)=  [cos(D/2) | sin(D/2)] of position*inv_freq, angles in
//                                                                    double; attr scale multiplies both (1 if none). Padding: cos 1, sin 0
// rope_forward              x(R,n*D)+=, table(R,D)                    rotates halves (i, i+D/2) of each head in place; attr heads, head_dim
// rope_backward             dx(R,n*D)+=, table(R,D)                   the inverse rotation, in place
// linear_forward            x(R,I), w, y(R,O)= [, bias(O)]            y = x w^T + bias; w is (O,I), or (I,O) with attr in_out
// linear_backward_input     dy(R,O), w, dx(R,I)                       dx = dy w; attr accumulate: +=
// linear_backward_weight    x(R,I), dy(R,O), dw+=                     dw += dy^T x in the layout of w (one primitive, always accumulating)
// bias_backward             dy(R,O), db(O)+=                          column sums, fixed chunks of rows in index order
// rms_norm_forward          x(R,H), w(H), y(R,H)=, rstd(R)=           attr eps. Also per head: R*n rows of D
// rms_norm_backward         x, w, rstd, dy, dx(R,H), dw(H)+=          attr accumulate: dx +=
// layer_norm_forward        x(R,H), w(H), b(H), y=, mean(R)=, rstd(R)=
// layer_norm_backward       x, w, mean, rstd, dy, dx, dw+=, db+=      attr accumulate: dx +=
// attention_forward         q(R,Q), k(R,K), v(R,K), segment_begin i32(R), out(R,Q)=, lse(R,n)=
//                                                                    row i sees max(segment_begin[i], i-window+1) .. i (window 0: none);
//                                                                    attr heads, kv_heads, head_dim, window, scale. Padding rows: out 0
// attention_backward        q, k, v, segment_begin, out, lse, dout, dq(R,Q)=, dk(R,K)=, dv(R,K)=
// attention_cached          q(R,Q), k(R,K), v(R,K), positions i32(R), k_cache(T,K)+=, v_cache(T,K)+=, out(R,Q)=
//                                                                    stores k, v at their positions, then attends to 0..position (window as above)
// activation_forward        x(R,F), y(R,F)=                           attr activation
// activation_backward       x, dy, dx(R,F)=                           dx may be dy
// gated_forward             gate(R,F), up(R,F), y(R,F)=               y = activation(gate) * up; y may be gate or up
// gated_backward            gate, up, dy, dgate(R,F)=, dup(R,F)=      outputs may alias gate, up or dy row by row
// add                       a(n), b(n), y(n)=                         y may be a or b
// copy                      x(n), y(n)=
// fill_zero                 x(n)=
// head_loss                 h(R,H), targets i32(R), step, loss f64(2)=, dh(R,H)=, then P parts (V_p,H), then P gradients (V_p,H)+=
//                           attr parts = P. Softmax cross-entropy over all parts, in tiles of 256 rows: loss[0] = sum over targets of
//                           -log p, loss[1] = number of targets; gradients carry step.loss_scale; dh is summed in part order
// head_stats                h(R,H), targets i32(R), part(V,H), stats f32(R,4)=+   online (max, sum of exp, logit of the target, free);
//                           attr row_begin; attr first: stats are initialised
// head_stats_loss           stats(R,4), targets i32(R), loss f64(2)=
// head_grad                 h, targets, step, part(V,H), grad(V,H)+=, stats(R,4), dh(R,H)=+  logits recomputed; attr row_begin; attr first: dh starts at 0
// square_sum                g(n), out f64(ceil(n/65536))=             one partial sum per chunk of 65,536 elements
// row_square_sum            g(V,H), out f64(V)=                       per row
// gather_touched            touched, grad(V,H), out(U,H)=             out[u] = grad[id_u - row_begin] for the touched ids in this part; attr row_begin
// row_square_sum_touched    touched, dense(U,H), sparse(U,H), sums f64(all rows)+=   sums[id_u] = sum of squares of dense[u] + sparse[u];
//                                                                    attr row_begin -1: dense is absent (operand omitted)
// global_norm               partials f64(n), step, update=            norm = sqrt(sum in index order); fills `update` (clip scale, corrections)
// prepare_update            step, update=                             the same with clip scale 1 (updates during the backward)
// adamw                     w(n)+=, m(n)+=, v(n)+=, g(n), update      decoupled decay; attr decay: apply weight_decay
// adamw_table               w(V,H)+=, m+=, v+=, sparse(U,H), touched, update [, g(V,H)]   gradient = g + sparse rows; attr row_begin, decay
// split3                    x(R,3C), a(R,C)=, b(R,C)=, c(R,C)=        columns [0,C), [C,2C), [2C,3C) of x (a fused q, k, v projection)
// merge3                    a(R,C), b(R,C), c(R,C), x(R,3C)=          the inverse of split3
//
// `step` is a StepScalars, `update` an UpdateScalars, `touched` a TouchedRows header with its ids (below).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "parbuckle/dtype.h"
#include "parbuckle/status.h"

#include "engine/base/ids.h"

namespace parbuckle {

enum class OpKind {
  embedding_forward,
  position_forward,
  embedding_backward,
  rope_table,
  rope_forward,
  rope_backward,
  linear_forward,
  linear_backward_input,
  linear_backward_weight,
  bias_backward,
  rms_norm_forward,
  rms_norm_backward,
  layer_norm_forward,
  layer_norm_backward,
  attention_forward,
  attention_backward,
  attention_cached,
  activation_forward,
  activation_backward,
  gated_forward,
  gated_backward,
  add,
  copy,
  fill_zero,
  head_loss,
  head_stats,
  head_stats_loss,
  head_grad,
  square_sum,
  row_square_sum,
  gather_touched,
  row_square_sum_touched,
  global_norm,
  prepare_update,
  adamw,
  adamw_table,
  split3,
  merge3,
};
inline constexpr int op_kind_count = static_cast<int>(OpKind::merge3) + 1;

std::string_view to_string(OpKind kind);

enum class Activation { silu, gelu_exact, gelu_tanh, relu };
std::string_view to_string(Activation activation);

/// Every op reads the attributes that its row above names and ignores the rest.
struct Attributes {
  float eps = 0;
  float scale = 0;
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t window = 0;  // 0: none
  std::int32_t parts = 0;
  std::int64_t row_begin = 0;  // first row of a table part
  Activation activation = Activation::silu;
  bool in_out = false;  // weight stored (in, out) instead of (out, in)
  bool accumulate = false;
  bool first = false;
  bool decay = false;
  friend bool operator==(const Attributes&, const Attributes&) = default;
};

/// At most three dimensions; unused ones are 1. A vector is (n, 1, 1).
struct Shape {
  std::int64_t d0 = 1;
  std::int64_t d1 = 1;
  std::int64_t d2 = 1;
  [[nodiscard]] constexpr std::int64_t elements() const { return d0 * d1 * d2; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

/// Written by the trainer before each step; fixed during it.
struct StepScalars {
  float learning_rate = 0;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0;
  float max_norm = 0;     // 0: no clipping
  double loss_scale = 1;  // 1 / targets of the step
  std::int64_t step = 0;  // logical optimizer step this update will be, from 1
};

/// Written by global_norm or prepare_update; read by the updates of that step, also when they run in the next one.
struct UpdateScalars {
  float learning_rate = 0;
  float beta1 = 0;
  float beta2 = 0;
  float epsilon = 0;
  float weight_decay = 0;
  float clip_scale = 1;        // min(1, max_norm / (norm + 1e-6)); 1 without clipping
  float correction1 = 1;       // 1 - beta1^step, computed in double
  float correction2_sqrt = 1;  // sqrt(1 - beta2^step), computed in double
  double norm = 0;             // global L2 norm before clipping
  std::int64_t step = 0;
};

/// Header of a `touched` operand; `count` ascending unique row ids (i32) follow it.
struct TouchedRows {
  std::int64_t count = 0;
  std::int64_t reserved = 0;
};

/// One operand as an op sees it.
struct OperandView {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::f32;
};

struct OpArgs {
  std::span<const OperandView> operands;
  const Attributes* attributes = nullptr;
  void* workspace = nullptr;  // as many bytes as workspace_bytes() said, 64-byte aligned
};

/// Shapes of an op before it runs: what a device needs to create its primitives.
struct OpShape {
  OpKind kind = OpKind::copy;
  Attributes attributes;
  std::vector<Shape> operands;
  friend bool operator==(const OpShape&, const OpShape&) = default;
};

/// What one device offers. `state` is the device's own (primitive cache, thread team).
/// prepare: creates what the op needs for these shapes and returns its workspace in bytes. Outside the step.
/// run: computes; allocates nothing; the same inputs give the same bits.
struct OpTable {
  void* state = nullptr;
  Result<std::int64_t> (*prepare)(void* state, const OpShape& op) = nullptr;
  Status (*run)(void* state, const OpShape& op, const OpArgs& args) = nullptr;
};

}  // namespace parbuckle
