#include "offload/storage/checksum.h"

#ifdef PARBUCKLE_XXH3_DISPATCH
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace parbuckle {

#ifdef PARBUCKLE_XXH3_DISPATCH

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits_dispatch(bytes.data(), bytes.size());
}

std::string_view checksum_name() {
  return "xxh3-64, widest vectors of this processor";
}

#else

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string_view checksum_name() {
  return "xxh3-64";
}

#endif

}  // namespace parbuckle
