#pragma once

#include "engine/checkpoint/config_keys.h"
#include "engine/model/config.h"

namespace parbuckle {

/// Rotary positions of a config.json: rope_theta at the top with rope_scaling (transformers 4), or both inside
/// rope_parameters (transformers 5). Types default, linear and llama3; others are refused. Faults are kept in `keys`.
RopeConfig read_rope(ConfigKeys& keys);

}  // namespace parbuckle
