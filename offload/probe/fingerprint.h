// What tells one machine from another: a measurement made on one is not used on another.
#pragma once

#include <string>

namespace parbuckle {

/// Processor model, cores, caches and memory, as hwloc sees them: "AMD EPYC; 2 cores; L3 32 MiB; 23.4 GiB".
std::string machine_fingerprint();

}  // namespace parbuckle
