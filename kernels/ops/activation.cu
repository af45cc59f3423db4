#include "kernels/ops/activation.h"

#include <array>

namespace parbuckle::cuda {
namespace {

struct ValueAndSlope {
  float value;
  float slope;
};

SIMT_DEVICE ValueAndSlope silu(float x) {
  const float sigmoid = 1.0F / (1.0F + simt::exponential(-x));
  return {x * sigmoid, sigmoid * (1.0F + x * (1.0F - sigmoid))};
}

/// x Phi(x); slope Phi(x) + x phi(x)
SIMT_DEVICE ValueAndSlope gelu_exact(float x) {
  constexpr float half_root = 0.70710678118654752F;
  constexpr float density_at_0 = 0.39894228040143268F;
  const float phi = 0.5F * simt::complementary_error_function(-x * half_root);
  return {x * phi, phi + x * density_at_0 * simt::exponential(-0.5F * x * x)};
}

/// 0.5 x (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3); 0.5 (1 + tanh u) is the sigmoid of 2u, which keeps its
/// precision where tanh nears -1.
SIMT_DEVICE ValueAndSlope gelu_tanh(float x) {
  constexpr float root = 0.79788456080286536F;
  constexpr float cubic = 0.044715F;
  const float u = root * (x + cubic * x * x * x);
  const float half = 1.0F / (1.0F + simt::exponential(-2.0F * u));
  const float du = root * (1.0F + 3.0F * cubic * x * x);
  const float bend = half * (1.0F - half);
  return {x * half, bend == 0.0F ? half : half + 2.0F * x * bend * du};
}

SIMT_DEVICE ValueAndSlope activate(Activation kind, float x) {
  switch (kind) {
    case Activation::silu:
      return silu(x);
    case Activation::gelu_exact:
      return gelu_exact(x);
    case Activation::gelu_tanh:
      return gelu_tanh(x);
    case Activation::relu:
      break;
  }
  return x > 0 ? ValueAndSlope{x, 1.0F} : ValueAndSlope{0.0F, 0.0F};
}

struct Forward {
  Activation kind;
  Global<const float> x;
  Global<float> y;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t i) const {
    y[i] = activate(kind, x[i]).value;
  }
};

struct Backward {
  Activation kind;
  Global<const float> x, dy;
  Global<float> dx;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t i) const {
    dx[i] = dy[i] * activate(kind, x[i]).slope;
  }
};

struct GatedForward {
  Activation kind;
  Global<const float> gate, up;
  Global<float> y;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t i) const {
    y[i] = activate(kind, gate[i]).value * up[i];
  }
};

/// Outputs may be inputs, so everything is read first.
struct GatedBackward {
  Activation kind;
  Global<const float> gate, up, dy;
  Global<float> dgate, dup;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t i) const {
    const ValueAndSlope at = activate(kind, gate[i]);
    const float wide_up = up[i];
    const float wide_dy = dy[i];
    dgate[i] = wide_dy * wide_up * at.slope;
    dup[i] = wide_dy * at.value;
  }
};

template <std::size_t operands>
Result<std::int64_t> prepare(const OpShape& op) {
  PARBUCKLE_TRY(expect_alike(op, operands));
  return std::int64_t{0};
}

Status run_forward(const Context& context, const OpShape& op, const OpArgs& args) {
  return for_each(context,
                  shape_of(op, 0).elements(),
                  Forward{op.attributes.activation,
                          view_in<float>(context, args, 0),
                          view_out<float>(context, args, 1)});
}

Status run_backward(const Context& context, const OpShape& op, const OpArgs& args) {
  return for_each(context,
                  shape_of(op, 0).elements(),
                  Backward{op.attributes.activation,
                           view_in<float>(context, args, 0),
                           view_in<float>(context, args, 1),
                           view_out<float>(context, args, 2)});
}

Status run_gated_forward(const Context& context, const OpShape& op, const OpArgs& args) {
  return for_each(context,
                  shape_of(op, 0).elements(),
                  GatedForward{op.attributes.activation,
                               view_in<float>(context, args, 0),
                               view_in<float>(context, args, 1),
                               view_out<float>(context, args, 2)});
}

Status run_gated_backward(const Context& context, const OpShape& op, const OpArgs& args) {
  return for_each(context,
                  shape_of(op, 0).elements(),
                  GatedBackward{op.attributes.activation,
                                view_in<float>(context, args, 0),
                                view_in<float>(context, args, 1),
                                view_in<float>(context, args, 2),
                                view_out<float>(context, args, 3),
                                view_out<float>(context, args, 4)});
}

constexpr std::array entries{OpEntry{OpKind::activation_forward, prepare<2>, run_forward},
                             OpEntry{OpKind::activation_backward, prepare<3>, run_backward},
                             OpEntry{OpKind::gated_forward, prepare<3>, run_gated_forward},
                             OpEntry{OpKind::gated_backward, prepare<5>, run_gated_backward}};

}  // namespace

std::span<const OpEntry> activation_ops() {
  return entries;
}

}  // namespace parbuckle::cuda
