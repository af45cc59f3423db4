// The budget that a refusal names: "... the smallest that works is 363MiB".
#pragma once

#include <cstdint>
#include <string>

#include "parbuckle/trainer.h"

namespace parbuckle {

/// MiB; -1 where the message names none.
inline std::int64_t smallest_named(const std::string& message) {
  const std::string mark = "the smallest that works is ";
  const auto found = message.find(mark);
  return found == std::string::npos ? -1 : std::stoll(message.substr(found + mark.size()));
}

/// In MiB, with `config` otherwise as it is; -1 where an impossible budget is not refused so.
inline std::int64_t smallest_budget(TrainConfig config) {
  Observer silent;
  config.memory.host_memory = "1MiB";
  return smallest_named(plan(config, false, silent).status().message());
}

inline std::string mib_text(std::int64_t count) {
  return std::to_string(count) + "MiB";
}

}  // namespace parbuckle
