#include <cstddef>
#include <string_view>

#include "engine/base/describe.h"

namespace parbuckle {

std::string_view to_string(Role role) {
  return words_of(role)[static_cast<std::size_t>(role)];
}
std::string_view to_string(Phase phase) {
  return words_of(phase)[static_cast<std::size_t>(phase)];
}
std::string_view to_string(LaneKind kind) {
  return words_of(kind)[static_cast<std::size_t>(kind)];
}
std::string_view to_string(WaitsIn place) {
  return words_of(place)[static_cast<std::size_t>(place)];
}
std::string_view to_string(Window window) {
  return words_of(window)[static_cast<std::size_t>(window)];
}
std::string_view to_string(TaskKind kind) {
  return words_of(kind)[static_cast<std::size_t>(kind)];
}

std::int64_t& moved(RoleBytes& role, LaneKind lane) {
  switch (lane) {
    case LaneKind::h2d:
      return role.down;
    case LaneKind::d2h:
      return role.up;
    case LaneKind::nvme_write:
      return role.written;
    case LaneKind::nvme_read:
    case LaneKind::compute:
    case LaneKind::host_compute:
      break;
  }
  return role.read;
}

std::int64_t block_bytes(const Block& block, const ShapeKey& shape) {
  return block.bytes + (block.per_micro_batch ? shape.rows * block.row_bytes : 0);
}

}  // namespace parbuckle
