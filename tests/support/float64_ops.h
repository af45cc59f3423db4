// What the operators of engine/base/op.h compute, written plainly in float64: the yardstick of every implementation.
// Matrices are vectors in row-major order; sizes are those of op.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numbers>
#include <vector>

#include "engine/base/op.h"

namespace parbuckle::reference {

using Values = std::vector<double>;
using Ids = std::vector<std::int32_t>;

inline Values widen(const std::vector<float>& x) {
  return {x.begin(), x.end()};
}

inline std::size_t at(std::int64_t row, std::int64_t columns, std::int64_t column) {
  return static_cast<std::size_t>(row * columns + column);
}

/// a(m,k) b(k,n)
inline Values product(const Values& a, const Values& b, std::int64_t m, std::int64_t k) {
  const std::int64_t n = static_cast<std::int64_t>(b.size()) / k;
  Values c(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t p = 0; p < k; ++p) {
      for (std::int64_t j = 0; j < n; ++j) {
        c[at(i, n, j)] += a[at(i, k, p)] * b[at(p, n, j)];
      }
    }
  }
  return c;
}

inline Values transposed(const Values& a, std::int64_t rows) {
  const std::int64_t columns = static_cast<std::int64_t>(a.size()) / rows;
  Values out(a.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      out[at(j, rows, i)] = a[at(i, columns, j)];
    }
  }
  return out;
}

// ---- norms

struct Norm {
  Values y, mean, rstd;
};

/// layer_norm where b is given, rms_norm where it is empty.
inline Norm norm_forward(const Values& x, const Values& w, const Values& b, double eps) {
  const auto width = static_cast<std::int64_t>(w.size());
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / width;
  Norm out{Values(x.size()),
           Values(static_cast<std::size_t>(rows)),
           Values(static_cast<std::size_t>(rows))};
  for (std::int64_t r = 0; r < rows; ++r) {
    double mean = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      mean += b.empty() ? 0 : x[at(r, width, i)] / static_cast<double>(width);
    }
    double square = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      square += std::pow(x[at(r, width, i)] - mean, 2) / static_cast<double>(width);
    }
    const double rstd = 1 / std::sqrt(square + eps);
    for (std::int64_t i = 0; i < width; ++i) {
      const auto column = static_cast<std::size_t>(i);
      out.y[at(r, width, i)] =
          (x[at(r, width, i)] - mean) * rstd * w[column] + (b.empty() ? 0 : b[column]);
    }
    out.mean[static_cast<std::size_t>(r)] = mean;
    out.rstd[static_cast<std::size_t>(r)] = rstd;
  }
  return out;
}

struct NormGradients {
  Values dx, dw, db;
};

inline NormGradients norm_backward(
    const Values& x, const Values& w, const Values& dy, bool centred, double eps) {
  const auto width = static_cast<std::int64_t>(w.size());
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / width;
  const Norm forward = norm_forward(x, w, centred ? Values(w.size()) : Values(), eps);
  NormGradients out{Values(x.size()), Values(w.size()), Values(w.size())};
  for (std::int64_t r = 0; r < rows; ++r) {
    const double rstd = forward.rstd[static_cast<std::size_t>(r)];
    const auto n = [&](std::int64_t i) {
      return (x[at(r, width, i)] - forward.mean[static_cast<std::size_t>(r)]) * rstd;
    };
    double mean_g = 0;
    double mean_gn = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      const double g = dy[at(r, width, i)] * w[static_cast<std::size_t>(i)];
      mean_g += centred ? g / static_cast<double>(width) : 0;
      mean_gn += g * n(i) / static_cast<double>(width);
      out.dw[static_cast<std::size_t>(i)] += dy[at(r, width, i)] * n(i);
      out.db[static_cast<std::size_t>(i)] += dy[at(r, width, i)];
    }
    for (std::int64_t i = 0; i < width; ++i) {
      const double g = dy[at(r, width, i)] * w[static_cast<std::size_t>(i)];
      out.dx[at(r, width, i)] = rstd * (g - mean_g - n(i) * mean_gn);
    }
  }
  return out;
}

// ---- activations

inline double activate(Activation kind, double x) {
  switch (kind) {
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::gelu_exact:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::gelu_tanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::relu:
      return x > 0 ? x : 0;
  }
  return 0;
}

/// By central difference: good to 1e-9 where the function is smooth.
inline double slope(Activation kind, double x) {
  if (kind == Activation::relu) {
    return x > 0 ? 1 : 0;
  }
  constexpr double h = 1e-5;
  return (activate(kind, x + h) - activate(kind, x - h)) / (2 * h);
}

// ---- rotary positions

/// x(R, heads * D) turned by sign times the angles.
inline Values rotate(const Values& x, const Ids& positions, const Values& inv_freq, int sign) {
  const auto half = static_cast<std::int64_t>(inv_freq.size());
  const auto rows = static_cast<std::int64_t>(positions.size());
  const std::int64_t width = static_cast<std::int64_t>(x.size()) / rows;
  Values out = x;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < width; ++c) {
      const std::int64_t in_head = c % (2 * half);
      const std::int64_t position = positions[static_cast<std::size_t>(r)];
      const double angle = position < 0 ? 0
                                        : sign * static_cast<double>(position) *
                                              inv_freq[static_cast<std::size_t>(in_head % half)];
      const bool first = in_head < half;
      const double other = x[at(r, width, first ? c + half : c - half)];
      out[at(r, width, c)] =
          x[at(r, width, c)] * std::cos(angle) + (first ? -other : other) * std::sin(angle);
    }
  }
  return out;
}

// ---- attention

struct AttentionShape {
  std::int64_t rows = 0, heads = 0, kv_heads = 0, depth = 0, window = 0;
  double scale = 1;
  [[nodiscard]] std::int64_t q_width() const { return heads * depth; }
  [[nodiscard]] std::int64_t kv_width() const { return kv_heads * depth; }
};

/// Probabilities of row i of one head over rows 0 .. R-1; zero where it may not look. lse where any is visible.
inline Values probabilities(const AttentionShape& s,
                            const Values& q,
                            const Values& k,
                            const Ids& begins,
                            std::int64_t head,
                            std::int64_t i,
                            double* lse = nullptr) {
  Values p(static_cast<std::size_t>(s.rows));
  const std::int64_t begin = begins[static_cast<std::size_t>(i)];
  if (begin < 0) {
    return p;
  }
  const std::int64_t first = s.window > 0 ? std::max(begin, i - s.window + 1) : begin;
  const std::int64_t kv = head / (s.heads / s.kv_heads);
  double most = -std::numeric_limits<double>::infinity();
  for (std::int64_t j = first; j <= i; ++j) {
    double score = 0;
    for (std::int64_t d = 0; d < s.depth; ++d) {
      score += q[at(i, s.q_width(), head * s.depth + d)] * k[at(j, s.kv_width(), kv * s.depth + d)];
    }
    p[static_cast<std::size_t>(j)] = score * s.scale;
    most = std::max(most, score * s.scale);
  }
  double total = 0;
  for (std::int64_t j = first; j <= i; ++j) {
    double& value = p[static_cast<std::size_t>(j)];
    value = std::exp(value - most);
    total += value;
  }
  for (std::int64_t j = first; j <= i; ++j) {
    p[static_cast<std::size_t>(j)] /= total;
  }
  if (lse != nullptr) {
    *lse = most + std::log(total);
  }
  return p;
}

inline Values attention_forward(
    const AttentionShape& s, const Values& q, const Values& k, const Values& v, const Ids& begins) {
  Values out(q.size());
  for (std::int64_t head = 0; head < s.heads; ++head) {
    const std::int64_t kv = head / (s.heads / s.kv_heads);
    for (std::int64_t i = 0; i < s.rows; ++i) {
      const Values p = probabilities(s, q, k, begins, head, i);
      for (std::int64_t j = 0; j < s.rows; ++j) {
        for (std::int64_t d = 0; d < s.depth; ++d) {
          out[at(i, s.q_width(), head * s.depth + d)] +=
              p[static_cast<std::size_t>(j)] * v[at(j, s.kv_width(), kv * s.depth + d)];
        }
      }
    }
  }
  return out;
}

struct AttentionGradients {
  Values dq, dk, dv;
};

inline AttentionGradients attention_backward(const AttentionShape& s,
                                             const Values& q,
                                             const Values& k,
                                             const Values& v,
                                             const Ids& begins,
                                             const Values& dout) {
  AttentionGradients g{Values(q.size()), Values(k.size()), Values(v.size())};
  for (std::int64_t head = 0; head < s.heads; ++head) {
    const std::int64_t kv = head / (s.heads / s.kv_heads);
    const auto qi = [&](std::int64_t i, std::int64_t d) {
      return at(i, s.q_width(), head * s.depth + d);
    };
    const auto kj = [&](std::int64_t j, std::int64_t d) {
      return at(j, s.kv_width(), kv * s.depth + d);
    };
    for (std::int64_t i = 0; i < s.rows; ++i) {
      const Values p = probabilities(s, q, k, begins, head, i);
      Values dp(p.size());
      double delta = 0;
      for (std::int64_t j = 0; j <= i; ++j) {
        double& value = dp[static_cast<std::size_t>(j)];
        for (std::int64_t d = 0; d < s.depth; ++d) {
          value += dout[qi(i, d)] * v[kj(j, d)];
        }
        delta += value * p[static_cast<std::size_t>(j)];
      }
      for (std::int64_t j = 0; j <= i; ++j) {
        const double weight = p[static_cast<std::size_t>(j)];
        const double ds = weight * (dp[static_cast<std::size_t>(j)] - delta) * s.scale;
        for (std::int64_t d = 0; d < s.depth; ++d) {
          g.dq[qi(i, d)] += ds * k[kj(j, d)];
          g.dk[kj(j, d)] += ds * q[qi(i, d)];
          g.dv[kj(j, d)] += weight * dout[qi(i, d)];
        }
      }
    }
  }
  return g;
}

// ---- output layer

struct HeadResult {
  double loss = 0;
  double targets = 0;
  Values dh, dtable;
};

/// h(R,H), table(V,H): summed cross-entropy of the rows with a target, and its gradients times loss_scale.
inline HeadResult head_loss(const Values& h,
                            const Values& table,
                            const Ids& targets,
                            std::int64_t width,
                            double loss_scale) {
  const std::int64_t vocabulary = static_cast<std::int64_t>(table.size()) / width;
  HeadResult out{0, 0, Values(h.size()), Values(table.size())};
  for (std::size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] < 0) {
      continue;
    }
    const auto row = static_cast<std::int64_t>(r);
    Values logits(static_cast<std::size_t>(vocabulary));
    for (std::int64_t v = 0; v < vocabulary; ++v) {
      for (std::int64_t i = 0; i < width; ++i) {
        logits[static_cast<std::size_t>(v)] += h[at(row, width, i)] * table[at(v, width, i)];
      }
    }
    const double most = *std::max_element(logits.begin(), logits.end());
    double total = 0;
    for (const double logit : logits) {
      total += std::exp(logit - most);
    }
    out.loss += std::log(total) + most - logits[static_cast<std::size_t>(targets[r])];
    out.targets += 1;
    for (std::int64_t v = 0; v < vocabulary; ++v) {
      const double p = std::exp(logits[static_cast<std::size_t>(v)] - most) / total;
      const double g = loss_scale * (p - (v == targets[r] ? 1 : 0));
      for (std::int64_t i = 0; i < width; ++i) {
        out.dh[at(row, width, i)] += g * table[at(v, width, i)];
        out.dtable[at(v, width, i)] += g * h[at(row, width, i)];
      }
    }
  }
  return out;
}

// ---- checking gradients themselves

/// d f / d x[i] by central difference.
inline double difference(const std::function<double(const Values&)>& f, Values x, std::size_t i) {
  constexpr double h = 1e-5;
  x[i] += h;
  const double above = f(x);
  x[i] -= 2 * h;
  return (above - f(x)) / (2 * h);
}

inline double inner(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

}  // namespace parbuckle::reference
