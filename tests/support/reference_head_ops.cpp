#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/reference_ops.h"

namespace parbuckle::reference {
namespace {

double logit(const Call& c, std::int64_t row, std::size_t part, std::int64_t id) {
  const std::int64_t h = c.columns(0);
  double sum = 0;
  for (std::int64_t i = 0; i < h; ++i) {
    sum +=
        static_cast<double>(c.f32(0)[row * h + i]) * static_cast<double>(c.f32(part)[id * h + i]);
  }
  return sum;
}

/// d(loss)/d(logit) of one row and id, into dh and the part's gradient.
struct LogitGradient {
  const Call& c;
  std::size_t part;
  std::size_t gradient;
  std::size_t dh;

  void add(std::int64_t row, std::int64_t id, double slope) const {
    const std::int64_t h = c.columns(0);
    for (std::int64_t i = 0; i < h; ++i) {
      c.f32(dh)[row * h + i] +=
          static_cast<float>(slope * static_cast<double>(c.f32(part)[id * h + i]));
      c.f32(gradient)[id * h + i] +=
          static_cast<float>(slope * static_cast<double>(c.f32(0)[row * h + i]));
    }
  }
};

void head_loss_row(const Call& c, std::int64_t row) {
  const auto parts = static_cast<std::size_t>(c.a.parts);
  const double scale = c.as<const StepScalars>(2)->loss_scale;
  std::vector<double> logits;
  for (std::size_t p = 0; p < parts; ++p) {
    for (std::int64_t id = 0; id < c.rows(5 + p); ++id) {
      logits.push_back(logit(c, row, 5 + p, id));
    }
  }
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double l : logits) {
    sum += std::exp(l - top);
  }
  const std::int32_t target = c.i32(1)[row];
  c.f64(3)[0] += top + std::log(sum) - logits[static_cast<std::size_t>(target)];
  c.f64(3)[1] += 1;
  std::int64_t begin = 0;
  for (std::size_t p = 0; p < parts; ++p) {
    for (std::int64_t id = 0; id < c.rows(5 + p); ++id) {
      const double share = std::exp(logits[static_cast<std::size_t>(begin + id)] - top) / sum -
                           (begin + id == target ? 1 : 0);
      LogitGradient{c, 5 + p, 5 + parts + p, 4}.add(row, id, share * scale);
    }
    begin += c.rows(5 + p);
  }
}

void head_loss(const Call& c) {
  std::fill(c.f64(3), c.f64(3) + 2, 0.0);
  std::fill(c.f32(4), c.f32(4) + c.elements(4), 0.0F);
  for (std::int64_t r = 0; r < c.rows(0); ++r) {
    if (c.i32(1)[r] >= 0) {
      head_loss_row(c, r);
    }
  }
}

void head_stats(const Call& c) {
  for (std::int64_t r = 0; r < c.rows(0); ++r) {
    float* const stats = c.f32(3) + 4 * r;
    if (c.a.first) {
      stats[0] = -std::numeric_limits<float>::infinity();
      stats[1] = stats[2] = stats[3] = 0;
    }
    for (std::int64_t id = 0; c.i32(1)[r] >= 0 && id < c.rows(2); ++id) {
      const auto value = static_cast<float>(logit(c, r, 2, id));
      const float top = std::max(stats[0], value);
      stats[1] = stats[1] * std::exp(stats[0] - top) + std::exp(value - top);
      stats[0] = top;
      if (id + c.a.row_begin == c.i32(1)[r]) {
        stats[2] = value;
      }
    }
  }
}

void head_stats_loss(const Call& c) {
  c.f64(2)[0] = c.f64(2)[1] = 0;
  for (std::int64_t r = 0; r < c.rows(0); ++r) {
    if (c.i32(1)[r] >= 0) {
      const float* const stats = c.f32(0) + 4 * r;
      c.f64(2)[0] += static_cast<double>(stats[0]) + std::log(static_cast<double>(stats[1])) -
                     static_cast<double>(stats[2]);
      c.f64(2)[1] += 1;
    }
  }
}

void head_grad(const Call& c) {
  if (c.a.first) {
    std::fill(c.f32(6), c.f32(6) + c.elements(6), 0.0F);
  }
  const double scale = c.as<const StepScalars>(2)->loss_scale;
  for (std::int64_t r = 0; r < c.rows(0); ++r) {
    const float* const stats = c.f32(5) + 4 * r;
    for (std::int64_t id = 0; c.i32(1)[r] >= 0 && id < c.rows(3); ++id) {
      const double p = std::exp(logit(c, r, 3, id) - static_cast<double>(stats[0])) /
                       static_cast<double>(stats[1]);
      const double hit = id + c.a.row_begin == c.i32(1)[r] ? 1 : 0;
      LogitGradient{c, 3, 4, 6}.add(r, id, (p - hit) * scale);
    }
  }
}

constexpr Entry entries[] = {
    {OpKind::head_loss, head_loss},
    {OpKind::head_stats, head_stats},
    {OpKind::head_stats_loss, head_stats_loss},
    {OpKind::head_grad, head_grad},
};

}  // namespace

std::span<const Entry> head_ops() {
  return entries;
}

}  // namespace parbuckle::reference
