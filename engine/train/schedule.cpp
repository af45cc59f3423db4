#include "engine/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace parbuckle {

Result<ScheduleKind> schedule_kind_from_string(const std::string& name) {
  if (name == "constant") {
    return ScheduleKind::constant;
  }
  if (name == "constant_with_warmup") {
    return ScheduleKind::constant_with_warmup;
  }
  if (name == "linear") {
    return ScheduleKind::linear;
  }
  if (name == "cosine") {
    return ScheduleKind::cosine;
  }
  return invalid("--lr-scheduler-type '" + name +
                 "': expected constant, constant_with_warmup, linear or cosine");
}

double learning_rate(const Schedule& schedule, std::int64_t step) {
  if (schedule.kind == ScheduleKind::constant) {
    return schedule.peak;
  }
  const std::int64_t into_warmup = schedule.warmup_from_zero ? step : step + 1;
  if (into_warmup < schedule.warmup_steps) {
    return schedule.peak * static_cast<double>(into_warmup) /
           static_cast<double>(schedule.warmup_steps);
  }
  const auto left =
      static_cast<double>(std::max<std::int64_t>(1, schedule.total_steps - schedule.warmup_steps));
  const double progress = static_cast<double>(step - schedule.warmup_steps) / left;
  switch (schedule.kind) {
    case ScheduleKind::constant:
    case ScheduleKind::constant_with_warmup:
      return schedule.peak;
    case ScheduleKind::linear:
      return schedule.peak * std::max(0.0, 1 - progress);
    case ScheduleKind::cosine:
      return schedule.peak * std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * progress)));
  }
  return schedule.peak;
}

}  // namespace parbuckle
