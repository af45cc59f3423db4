#include <algorithm>
#include <cmath>

#include "tests/support/reference_ops.h"

namespace parbuckle::reference {
namespace {

const TouchedRows& header(const Call& c, std::size_t i) {
  return *c.as<const TouchedRows>(i);
}
const std::int32_t* ids(const Call& c, std::size_t i) {
  return c.i32(i) + sizeof(TouchedRows) / sizeof(std::int32_t);
}

void embedding_forward(const Call& c) {
  const std::int64_t h = c.columns(1);
  for (std::int64_t r = 0; r < c.rows(0); ++r) {
    const std::int64_t token = c.i32(0)[r];
    float* const out = c.f32(2) + r * h;
    const std::int64_t row = token - c.a.row_begin;
    if (token < 0 && c.a.row_begin == 0) {
      std::fill(out, out + h, 0.0F);
    } else if (token >= 0 && row >= 0 && row < c.rows(1)) {
      std::copy_n(c.f32(1) + row * h, h, out);
    }
  }
}

void position_forward(const Call& c) {
  const std::int64_t h = c.columns(1);
  for (std::int64_t r = 0; r < c.rows(0); ++r) {
    for (std::int64_t i = 0; c.i32(0)[r] >= 0 && i < h; ++i) {
      c.f32(2)[r * h + i] += c.f32(1)[c.i32(0)[r] * h + i];
    }
  }
}

void embedding_backward(const Call& c) {
  const std::int64_t h = c.columns(1);
  for (std::int64_t r = 0; r < c.rows(0); ++r) {
    for (std::int64_t i = 0; c.i32(0)[r] >= 0 && i < h; ++i) {
      c.f32(2)[c.i32(0)[r] * h + i] += c.f32(1)[r * h + i];
    }
  }
}

double square_sum(const float* x, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  return sum;
}

void square_sums(const Call& c) {
  constexpr std::int64_t chunk = 65536;
  for (std::int64_t begin = 0; begin < c.elements(0); begin += chunk) {
    c.f64(1)[begin / chunk] = square_sum(c.f32(0) + begin, std::min(chunk, c.elements(0) - begin));
  }
}

void gather_touched(const Call& c) {
  const std::int64_t h = c.columns(1);
  for (std::int64_t u = 0; u < header(c, 0).count; ++u) {
    const std::int64_t row = ids(c, 0)[u] - c.a.row_begin;
    if (row >= 0 && row < c.rows(1)) {
      std::copy_n(c.f32(1) + row * h, h, c.f32(2) + u * h);
    }
  }
}

void row_square_sum_touched(const Call& c) {
  const bool with_dense = c.a.row_begin >= 0;
  const std::size_t sparse = with_dense ? 2 : 1;
  const std::int64_t h = c.columns(sparse);
  for (std::int64_t u = 0; u < header(c, 0).count; ++u) {
    double sum = 0;
    for (std::int64_t i = u * h; i < (u + 1) * h; ++i) {
      const float g = c.f32(sparse)[i] + (with_dense ? c.f32(1)[i] : 0);
      sum += static_cast<double>(g) * static_cast<double>(g);
    }
    c.f64(sparse + 1)[ids(c, 0)[u]] = sum;
  }
}

void row_square_sum(const Call& c) {
  for (std::int64_t r = 0; r < c.rows(0); ++r) {
    c.f64(1)[r] = square_sum(c.f32(0) + r * c.columns(0), c.columns(0));
  }
}

constexpr Entry entries[] = {
    {OpKind::embedding_forward, embedding_forward},
    {OpKind::position_forward, position_forward},
    {OpKind::embedding_backward, embedding_backward},
    {OpKind::square_sum, square_sums},
    {OpKind::row_square_sum, row_square_sum},
    {OpKind::gather_touched, gather_touched},
    {OpKind::row_square_sum_touched, row_square_sum_touched},
};

}  // namespace

std::span<const Entry> table_ops() {
  return entries;
}

}  // namespace parbuckle::reference
