#include "offload/probe/fingerprint.h"

#include <cstdint>
#include <memory>

#include <hwloc.h>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};

}  // namespace

std::string machine_fingerprint() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) {
    return "unknown machine";
  }
  const std::unique_ptr<hwloc_topology, DestroyTopology> topology(raw);
  if (hwloc_topology_load(raw) != 0) {
    return "unknown machine";
  }
  std::string text;
  if (hwloc_obj_t package = hwloc_get_obj_by_type(raw, HWLOC_OBJ_PACKAGE, 0); package != nullptr) {
    const char* const model = hwloc_obj_get_info_by_name(package, "CPUModel");
    text = model != nullptr ? model : "processor";
  }
  text += "; " + std::to_string(hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_PU)) + " threads";
  if (hwloc_obj_t cache = hwloc_get_obj_by_type(raw, HWLOC_OBJ_L3CACHE, 0); cache != nullptr) {
    text += "; L3 " + format_size(static_cast<std::int64_t>(cache->attr->cache.size));
  }
  text += "; " + format_size(static_cast<std::int64_t>(hwloc_get_root_obj(raw)->total_memory));
  return text;
}

}  // namespace parbuckle
