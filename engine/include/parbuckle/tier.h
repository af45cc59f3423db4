#pragma once

namespace parbuckle {

/// Where bytes are held. On the `cpu` device the host is the device: its tiers are host and nvme.
enum class Tier { device, host, nvme };

}  // namespace parbuckle
