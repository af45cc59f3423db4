#include <cmath>
#include <cstring>
#include <numbers>

#include "tests/support/reference_ops.h"

namespace parbuckle::reference {
namespace {

struct Sample {
  double value = 0;
  double slope = 0;
};

Sample activate(Activation kind, double x) {
  switch (kind) {
    case Activation::silu: {
      const double s = 1 / (1 + std::exp(-x));
      return {x * s, s * (1 + x * (1 - s))};
    }
    case Activation::gelu_exact: {
      const double cdf = 0.5 * (1 + std::erf(x / std::numbers::sqrt2));
      const double pdf = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
      return {x * cdf, cdf + x * pdf};
    }
    case Activation::gelu_tanh: {
      const double k = std::sqrt(2 / std::numbers::pi);
      const double t = std::tanh(k * (x + 0.044715 * x * x * x));
      const double inner = k * (1 + 3 * 0.044715 * x * x);
      return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner};
    }
    case Activation::relu:
      return {x > 0 ? x : 0, x > 0 ? 1.0 : 0.0};
  }
  return {};
}

/// Element (o, i) of a weight stored (out, in), or (in, out).
std::int64_t weight_index(const Call& c, std::size_t w, std::int64_t o, std::int64_t i) {
  return c.a.in_out ? i * c.columns(w) + o : o * c.columns(w) + i;
}

void linear_forward(const Call& c) {
  const std::int64_t in = c.columns(0);
  const std::int64_t out = c.columns(2);
  for (std::int64_t r = 0; r < c.rows(0); ++r) {
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = c.count() > 3 ? static_cast<double>(c.f32(3)[o]) : 0;
      for (std::int64_t i = 0; i < in; ++i) {
        sum += static_cast<double>(c.f32(0)[r * in + i]) *
               static_cast<double>(c.f32(1)[weight_index(c, 1, o, i)]);
      }
      c.f32(2)[r * out + o] = static_cast<float>(sum);
    }
  }
}

void linear_backward_input(const Call& c) {
  const std::int64_t out = c.columns(0);
  const std::int64_t in = c.columns(2);
  for (std::int64_t r = 0; r < c.rows(0); ++r) {
    for (std::int64_t i = 0; i < in; ++i) {
      float& dx = c.f32(2)[r * in + i];
      double sum = c.a.accumulate ? static_cast<double>(dx) : 0;
      for (std::int64_t o = 0; o < out; ++o) {
        sum += static_cast<double>(c.f32(0)[r * out + o]) *
               static_cast<double>(c.f32(1)[weight_index(c, 1, o, i)]);
      }
      dx = static_cast<float>(sum);
    }
  }
}

void linear_backward_weight(const Call& c) {
  const std::int64_t in = c.columns(0);
  const std::int64_t out = c.columns(1);
  for (std::int64_t o = 0; o < out; ++o) {
    for (std::int64_t i = 0; i < in; ++i) {
      float& dw = c.f32(2)[weight_index(c, 2, o, i)];
      double sum = dw;
      for (std::int64_t r = 0; r < c.rows(0); ++r) {
        sum +=
            static_cast<double>(c.f32(0)[r * in + i]) * static_cast<double>(c.f32(1)[r * out + o]);
      }
      dw = static_cast<float>(sum);
    }
  }
}

void bias_backward(const Call& c) {
  for (std::int64_t o = 0; o < c.columns(0); ++o) {
    double sum = c.f32(1)[o];
    for (std::int64_t r = 0; r < c.rows(0); ++r) {
      sum += static_cast<double>(c.f32(0)[r * c.columns(0) + o]);
    }
    c.f32(1)[o] = static_cast<float>(sum);
  }
}

/// Both norms: y = (x - mean) * rstd * w + b; the RMS norm has mean 0 and no b.
void norm_forward(const Call& c, bool centred) {
  const std::int64_t h = c.columns(0);
  const std::size_t y = centred ? 3 : 2;
  for (std::int64_t r = 0; r < c.rows(0); ++r) {
    const float* x = c.f32(0) + r * h;
    double mean = 0;
    for (std::int64_t i = 0; centred && i < h; ++i) {
      mean += static_cast<double>(x[i]) / static_cast<double>(h);
    }
    double square = 0;
    for (std::int64_t i = 0; i < h; ++i) {
      square += (static_cast<double>(x[i]) - mean) * (static_cast<double>(x[i]) - mean) /
                static_cast<double>(h);
    }
    const double rstd = 1 / std::sqrt(square + static_cast<double>(c.a.eps));
    for (std::int64_t i = 0; i < h; ++i) {
      const double bias = centred ? static_cast<double>(c.f32(2)[i]) : 0;
      c.f32(y)[r * h + i] = static_cast<float>(
          (static_cast<double>(x[i]) - mean) * rstd * static_cast<double>(c.f32(1)[i]) + bias);
    }
    if (centred) {
      c.f32(4)[r] = static_cast<float>(mean);
    }
    c.f32(centred ? 5 : 3)[r] = static_cast<float>(rstd);
  }
}

void norm_backward(const Call& c, bool centred) {
  const std::int64_t h = c.columns(0);
  const std::size_t at = centred ? 3 : 2;  // rstd; then dy, dx, dw, db
  for (std::int64_t r = 0; r < c.rows(0); ++r) {
    const float* x = c.f32(0) + r * h;
    const float* dy = c.f32(at + 1) + r * h;
    const double rstd = c.f32(at)[r];
    const double mean = centred ? static_cast<double>(c.f32(2)[r]) : 0;
    double with_x = 0;
    double sum = 0;
    for (std::int64_t i = 0; i < h; ++i) {
      const double g = static_cast<double>(dy[i]) * static_cast<double>(c.f32(1)[i]);
      with_x += g * (static_cast<double>(x[i]) - mean) * rstd / static_cast<double>(h);
      sum += centred ? g / static_cast<double>(h) : 0;
    }
    for (std::int64_t i = 0; i < h; ++i) {
      const double g = static_cast<double>(dy[i]) * static_cast<double>(c.f32(1)[i]);
      const double normed = (static_cast<double>(x[i]) - mean) * rstd;
      float& dx = c.f32(at + 2)[r * h + i];
      const double old = c.a.accumulate ? static_cast<double>(dx) : 0;
      c.f32(at + 3)[i] += static_cast<float>(static_cast<double>(dy[i]) * normed);
      if (centred) {
        c.f32(at + 4)[i] += dy[i];
      }
      dx = static_cast<float>(old + rstd * (g - sum - normed * with_x));
    }
  }
}

void activation(const Call& c, bool backward) {
  for (std::int64_t i = 0; i < c.elements(0); ++i) {
    const Sample s = activate(c.a.activation, c.f32(0)[i]);
    if (backward) {
      c.f32(2)[i] = static_cast<float>(s.slope * static_cast<double>(c.f32(1)[i]));
    } else {
      c.f32(1)[i] = static_cast<float>(s.value);
    }
  }
}

void gated(const Call& c, bool backward) {
  for (std::int64_t i = 0; i < c.elements(0); ++i) {
    const Sample s = activate(c.a.activation, c.f32(0)[i]);
    const double up = c.f32(1)[i];
    if (backward) {
      const double dy = c.f32(2)[i];
      c.f32(3)[i] = static_cast<float>(dy * up * s.slope);
      c.f32(4)[i] = static_cast<float>(dy * s.value);
    } else {
      c.f32(2)[i] = static_cast<float>(s.value * up);
    }
  }
}

/// split3 copies from the wide operand, merge3 to it.
void thirds(const Call& c, std::size_t wide, std::size_t first, bool split) {
  const std::int64_t width = c.columns(first);
  for (std::int64_t r = 0; r < c.rows(wide); ++r) {
    for (std::int64_t i = 0; i < 3 * width; ++i) {
      float& whole = c.f32(wide)[r * 3 * width + i];
      float& part = c.f32(first + static_cast<std::size_t>(i / width))[r * width + i % width];
      (split ? part : whole) = split ? whole : part;
    }
  }
}

void add(const Call& c) {
  for (std::int64_t i = 0; i < c.elements(0); ++i) {
    c.f32(2)[i] = c.f32(0)[i] + c.f32(1)[i];
  }
}

std::size_t bytes(const OperandView& view) {
  return static_cast<std::size_t>(view.shape.elements() * size_of(view.dtype));
}

constexpr Entry entries[] = {
    {OpKind::linear_forward, linear_forward},
    {OpKind::linear_backward_input, linear_backward_input},
    {OpKind::linear_backward_weight, linear_backward_weight},
    {OpKind::bias_backward, bias_backward},
    {OpKind::rms_norm_forward, [](const Call& c) { norm_forward(c, false); }},
    {OpKind::rms_norm_backward, [](const Call& c) { norm_backward(c, false); }},
    {OpKind::layer_norm_forward, [](const Call& c) { norm_forward(c, true); }},
    {OpKind::layer_norm_backward, [](const Call& c) { norm_backward(c, true); }},
    {OpKind::activation_forward, [](const Call& c) { activation(c, false); }},
    {OpKind::activation_backward, [](const Call& c) { activation(c, true); }},
    {OpKind::gated_forward, [](const Call& c) { gated(c, false); }},
    {OpKind::gated_backward, [](const Call& c) { gated(c, true); }},
    {OpKind::split3, [](const Call& c) { thirds(c, 0, 1, true); }},
    {OpKind::merge3, [](const Call& c) { thirds(c, 3, 0, false); }},
    {OpKind::add, add},
    {OpKind::copy, [](const Call& c) { std::memcpy(c.f32(1), c.f32(0), bytes(c.view(0))); }},
    {OpKind::fill_zero, [](const Call& c) { std::memset(c.f32(0), 0, bytes(c.view(0))); }},
};

}  // namespace

std::span<const Entry> layer_ops() {
  return entries;
}

}  // namespace parbuckle::reference
