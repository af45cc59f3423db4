// Learning rate as a pure function of the step, by the rules of transformers' get_scheduler.
#pragma once

#include <cstdint>
#include <string>

#include "parbuckle/status.h"

namespace parbuckle {

enum class ScheduleKind { constant, constant_with_warmup, linear, cosine };

struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  double peak = 0;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;
  bool warmup_from_zero =
      true;  // false: step k of a warm-up of w has k/w of the peak instead of (k-1)/w
};

/// "constant", "constant_with_warmup", "linear", "cosine"; anything else is refused with this list.
Result<ScheduleKind> schedule_kind_from_string(const std::string& name);

/// Rate of optimizer step `step`, counted from 0.
double learning_rate(const Schedule& schedule, std::int64_t step);

}  // namespace parbuckle
