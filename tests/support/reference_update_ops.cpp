#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tests/support/reference_ops.h"

namespace parbuckle::reference {
namespace {

void prepare(const StepScalars& step, UpdateScalars& update) {
  const auto t = static_cast<double>(step.step);
  update = {.learning_rate = step.learning_rate,
            .beta1 = step.beta1,
            .beta2 = step.beta2,
            .epsilon = step.epsilon,
            .weight_decay = step.weight_decay};
  update.correction1 = static_cast<float>(1 - std::pow(static_cast<double>(step.beta1), t));
  update.correction2_sqrt =
      static_cast<float>(std::sqrt(1 - std::pow(static_cast<double>(step.beta2), t)));
  update.step = step.step;
}

void global_norm(const Call& c) {
  const auto& step = *c.as<const StepScalars>(1);
  auto& update = *c.as<UpdateScalars>(2);
  prepare(step, update);
  double sum = 0;
  for (std::int64_t i = 0; i < c.elements(0); ++i) {
    sum += c.f64(0)[i];
  }
  update.norm = std::sqrt(sum);
  if (step.max_norm > 0) {
    update.clip_scale = static_cast<float>(
        std::min(1.0, static_cast<double>(step.max_norm) / (update.norm + 1e-6)));
  }
}

struct AdamW {
  const UpdateScalars& u;
  bool decay;

  void element(float& w, float& m, float& v, double gradient) const {
    const double g = gradient * static_cast<double>(u.clip_scale);
    const double b1 = u.beta1;
    const double b2 = u.beta2;
    m = static_cast<float>(b1 * static_cast<double>(m) + (1 - b1) * g);
    v = static_cast<float>(b2 * static_cast<double>(v) + (1 - b2) * g * g);
    const double rate = u.learning_rate;
    double next = w;
    if (decay) {
      next *= 1 - rate * static_cast<double>(u.weight_decay);
    }
    const double root = std::sqrt(static_cast<double>(v)) / static_cast<double>(u.correction2_sqrt);
    next -= rate * static_cast<double>(m) / static_cast<double>(u.correction1) /
            (root + static_cast<double>(u.epsilon));
    w = static_cast<float>(next);
  }
};

void adamw(const Call& c) {
  const AdamW rule = {*c.as<const UpdateScalars>(4), c.a.decay};
  for (std::int64_t i = 0; i < c.elements(0); ++i) {
    rule.element(c.f32(0)[i], c.f32(1)[i], c.f32(2)[i], c.f32(3)[i]);
  }
}

void adamw_table(const Call& c) {
  const AdamW rule = {*c.as<const UpdateScalars>(5), c.a.decay};
  const auto& touched = *c.as<const TouchedRows>(4);
  const std::int32_t* const ids = c.i32(4) + sizeof(TouchedRows) / sizeof(std::int32_t);
  const std::int64_t h = c.columns(0);
  for (std::int64_t r = 0; r < c.rows(0); ++r) {
    const auto id = static_cast<std::int32_t>(r + c.a.row_begin);
    const std::int32_t* const found = std::lower_bound(ids, ids + touched.count, id);
    const bool hit = found != ids + touched.count && *found == id;
    for (std::int64_t i = 0; i < h; ++i) {
      const float dense = c.count() > 6 ? c.f32(6)[r * h + i] : 0;
      const float sparse = hit ? c.f32(3)[(found - ids) * h + i] : 0;
      rule.element(c.f32(0)[r * h + i], c.f32(1)[r * h + i], c.f32(2)[r * h + i], dense + sparse);
    }
  }
}

void prepare_update(const Call& c) {
  prepare(*c.as<const StepScalars>(0), *c.as<UpdateScalars>(1));
}

constexpr Entry entries[] = {
    {OpKind::global_norm, global_norm},
    {OpKind::prepare_update, prepare_update},
    {OpKind::adamw, adamw},
    {OpKind::adamw_table, adamw_table},
};

}  // namespace

std::span<const Entry> update_ops() {
  return entries;
}

}  // namespace parbuckle::reference
