#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/reference_ops.h"

namespace parbuckle::reference {
namespace {

double dot(const float* a, const float* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

/// Softmax over scores of the rows [first, first + n); returns log of the sum of exponentials.
double softmax(std::vector<double>& scores) {
  const double top = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& s : scores) {
    s = std::exp(s - top);
    sum += s;
  }
  for (double& s : scores) {
    s /= sum;
  }
  return top + std::log(sum);
}

/// One query of one head against keys [first, last].
struct Query {
  std::int64_t first = 0;
  std::int64_t last = -1;
  std::int64_t kv_offset = 0;  // column of the key/value head
  std::int64_t kv_columns = 0;

  [[nodiscard]] std::vector<double> weights(const float* q,
                                            const float* keys,
                                            const Attributes& a,
                                            double& lse) const {
    std::vector<double> w;
    for (std::int64_t j = first; j <= last; ++j) {
      w.push_back(static_cast<double>(a.scale) *
                  dot(q, keys + j * kv_columns + kv_offset, a.head_dim));
    }
    lse = softmax(w);
    return w;
  }
};

Query query_of(const Call& c, std::int64_t row, std::int64_t begin, std::int64_t head) {
  const std::int64_t window = c.a.window > 0 ? row - c.a.window + 1 : 0;
  return {.first = std::max(begin, window),
          .last = row,
          .kv_offset = head / (c.a.heads / c.a.kv_heads) * c.a.head_dim,
          .kv_columns = static_cast<std::int64_t>(c.a.kv_heads) * c.a.head_dim};
}

void write_output(const Query& query,
                  const std::vector<double>& w,
                  const float* values,
                  std::int64_t head_dim,
                  float* out) {
  for (std::int64_t d = 0; d < head_dim; ++d) {
    double sum = 0;
    for (std::size_t j = 0; j < w.size(); ++j) {
      const std::int64_t row = query.first + static_cast<std::int64_t>(j);
      sum += w[j] * static_cast<double>(values[row * query.kv_columns + query.kv_offset + d]);
    }
    out[d] = static_cast<float>(sum);
  }
}

void attention_forward(const Call& c) {
  const std::int64_t n = c.a.heads;
  const std::int64_t d = c.a.head_dim;
  for (std::int64_t r = 0; r < c.rows(0); ++r) {
    for (std::int64_t h = 0; h < n; ++h) {
      float* const out = c.f32(4) + (r * n + h) * d;
      if (c.i32(3)[r] < 0) {
        std::fill(out, out + d, 0.0F);
        c.f32(5)[r * n + h] = 0;
        continue;
      }
      const Query query = query_of(c, r, c.i32(3)[r], h);
      double lse = 0;
      const auto w = query.weights(c.f32(0) + (r * n + h) * d, c.f32(1), c.a, lse);
      write_output(query, w, c.f32(2), d, out);
      c.f32(5)[r * n + h] = static_cast<float>(lse);
    }
  }
}

void attention_backward_row(const Call& c, std::int64_t r, std::int64_t h) {
  const std::int64_t n = c.a.heads;
  const std::int64_t d = c.a.head_dim;
  const Query query = query_of(c, r, c.i32(3)[r], h);
  const float* const q = c.f32(0) + (r * n + h) * d;
  const float* const dout = c.f32(6) + (r * n + h) * d;
  const double delta = dot(c.f32(4) + (r * n + h) * d, dout, d);
  double lse = 0;
  const auto w = query.weights(q, c.f32(1), c.a, lse);
  for (std::size_t j = 0; j < w.size(); ++j) {
    const std::int64_t kv =
        (query.first + static_cast<std::int64_t>(j)) * query.kv_columns + query.kv_offset;
    const double ds = w[j] * (dot(c.f32(2) + kv, dout, d) - delta) * static_cast<double>(c.a.scale);
    for (std::int64_t i = 0; i < d; ++i) {
      c.f32(7)[(r * n + h) * d + i] +=
          static_cast<float>(ds * static_cast<double>(c.f32(1)[kv + i]));
      c.f32(8)[kv + i] += static_cast<float>(ds * static_cast<double>(q[i]));
      c.f32(9)[kv + i] += static_cast<float>(w[j] * static_cast<double>(dout[i]));
    }
  }
}

void attention_backward(const Call& c) {
  for (std::size_t out = 7; out < 10; ++out) {
    std::fill(c.f32(out), c.f32(out) + c.elements(out), 0.0F);
  }
  for (std::int64_t r = 0; r < c.rows(0); ++r) {
    for (std::int64_t h = 0; c.i32(3)[r] >= 0 && h < c.a.heads; ++h) {
      attention_backward_row(c, r, h);
    }
  }
}

void attention_cached(const Call& c) {
  const std::int64_t n = c.a.heads;
  const std::int64_t d = c.a.head_dim;
  const std::int64_t columns = c.columns(1);
  for (std::int64_t r = 0; r < c.rows(0); ++r) {
    const std::int64_t position = c.i32(3)[r];
    if (position < 0) {
      std::fill(c.f32(6) + r * n * d, c.f32(6) + (r + 1) * n * d, 0.0F);
      continue;
    }
    std::copy_n(c.f32(1) + r * columns, columns, c.f32(4) + position * columns);
    std::copy_n(c.f32(2) + r * columns, columns, c.f32(5) + position * columns);
    for (std::int64_t h = 0; h < n; ++h) {
      const Query query = query_of(c, position, 0, h);
      double lse = 0;
      const auto w = query.weights(c.f32(0) + (r * n + h) * d, c.f32(4), c.a, lse);
      write_output(query, w, c.f32(5), d, c.f32(6) + (r * n + h) * d);
    }
  }
}

void rope(const Call& c, double sign) {
  const std::int64_t half = c.a.head_dim / 2;
  for (std::int64_t r = 0; r < c.rows(0); ++r) {
    const float* const table = c.f32(1) + r * 2 * half;
    for (std::int64_t h = 0; h < c.a.heads; ++h) {
      float* const x = c.f32(0) + r * c.columns(0) + h * 2 * half;
      for (std::int64_t i = 0; i < half; ++i) {
        const double cosine = table[i];
        const double sine = sign * static_cast<double>(table[half + i]);
        const double a = x[i];
        const double b = x[half + i];
        x[i] = static_cast<float>(a * cosine - b * sine);
        x[half + i] = static_cast<float>(b * cosine + a * sine);
      }
    }
  }
}

void rope_table(const Call& c) {
  const std::int64_t half = c.elements(1);
  for (std::int64_t r = 0; r < c.rows(0); ++r) {
    const double position = std::max(0, c.i32(0)[r]);
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = position * static_cast<double>(c.f32(1)[i]);
      c.f32(2)[r * 2 * half + i] = static_cast<float>(std::cos(angle)) * c.a.scale;
      c.f32(2)[r * 2 * half + half + i] = static_cast<float>(std::sin(angle)) * c.a.scale;
    }
  }
}

constexpr Entry entries[] = {
    {OpKind::attention_forward, attention_forward},
    {OpKind::attention_backward, attention_backward},
    {OpKind::attention_cached, attention_cached},
    {OpKind::rope_forward, [](const Call& c) { rope(c, 1); }},
    {OpKind::rope_backward, [](const Call& c) { rope(c, -1); }},
    {OpKind::rope_table, rope_table},
};

}  // namespace

std::span<const Entry> attention_ops() {
  return entries;
}

}  // namespace parbuckle::reference
