#pragma once

#include <string>
#include <string_view>

namespace parbuckle {

/// A name from a file as it may stand in a message: 'name', control characters escaped, at most 80 bytes of it.
std::string quote(std::string_view name);

/// "'a', 'b', 'c' and 7 more": the first `shown` of the names.
template <class Names>
std::string first_few(const Names& names, std::size_t shown = 3) {
  std::string out;
  std::size_t count = 0;
  for (const auto& name : names) {
    if (count < shown) {
      out += (count > 0 ? ", " : "") + quote(name);
    }
    ++count;
  }
  return count > shown ? out + " and " + std::to_string(count - shown) + " more" : out;
}

}  // namespace parbuckle
