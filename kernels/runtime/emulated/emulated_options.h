// What an emulated device is told to be: `emulated:memory=512MiB,link=1GB/s,speed=1.0,cores=1`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "parbuckle/status.h"

namespace parbuckle {

enum class LinkDuplex {
  full,   // each direction has the link's bandwidth of its own
  shared  // one copy engine: both directions share it
};

struct EmulatedOptions {
  std::int64_t memory_bytes = 0;      // of the device, all of it
  std::int64_t link_bytes_per_s = 0;  // of one direction
  double latency_s = 0;               // of one copy
  LinkDuplex duplex = LinkDuplex::full;
  double speed = 1;  // of compute, against this host's cores: 0.5 takes twice as long
  int cores = 1;
  friend bool operator==(const EmulatedOptions&, const EmulatedOptions&) = default;
};

/// Reads "memory=512MiB,link=1GB/s[,latency=20us][,duplex=full|shared][,speed=1.0][,cores=1]", what stands behind
/// "emulated:". memory and link must be given. invalid_argument names the key, what was found and what is allowed.
Result<EmulatedOptions> parse_emulated(std::string_view text);

/// The same in that spelling, every key given.
std::string to_string(const EmulatedOptions& options);

}  // namespace parbuckle
