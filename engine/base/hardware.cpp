#include "engine/base/hardware.h"

#include <algorithm>

namespace parbuckle {

const ComputeDevice* host_device(const Hardware& hardware) {
  const bool beside =
      std::any_of(hardware.lanes.begin(), hardware.lanes.end(), [](const Lane& lane) {
        return lane.kind == LaneKind::h2d && lane.bytes_per_s > 0;
      });
  return beside && hardware.devices.size() > 1 ? &hardware.devices[1] : nullptr;
}

}  // namespace parbuckle
