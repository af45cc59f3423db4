#include "parbuckle/units.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdio>

namespace parbuckle {
namespace {

struct Suffix {
  std::string_view name;
  double factor;
};

constexpr std::array<Suffix, 15> suffixes{{{"", 1},
                                           {"b", 1},
                                           {"k", 1024.0},
                                           {"kib", 1024.0},
                                           {"kb", 1e3},
                                           {"m", 1048576.0},
                                           {"mib", 1048576.0},
                                           {"mb", 1e6},
                                           {"g", 1073741824.0},
                                           {"gib", 1073741824.0},
                                           {"gb", 1e9},
                                           {"t", 1099511627776.0},
                                           {"tib", 1099511627776.0},
                                           {"tb", 1e12},
                                           {"bytes", 1}}};

std::string fixed(double value, int decimals, const char* unit) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f %s", decimals, value, unit);
  return text.data();
}

std::string three_digits(double value, const char* unit) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.3g %s", value, unit);
  return text.data();
}

}  // namespace

Result<std::int64_t> parse_size(std::string_view text) {
  const auto bad = [&] {
    return invalid("size '" + std::string(text) +
                   "': expected a number with KiB, MiB, GiB, TiB, KB, MB, GB or TB, as in 700MiB");
  };
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || !std::isfinite(number) || number < 0) {
    return bad();
  }
  std::string suffix;
  for (const char* at = parsed.ptr; at != end; ++at) {
    if (*at != ' ') {
      suffix += static_cast<char>(std::tolower(static_cast<unsigned char>(*at)));
    }
  }
  const auto* found = std::find_if(
      suffixes.begin(), suffixes.end(), [&](const Suffix& s) { return s.name == suffix; });
  if (found == suffixes.end()) {
    return bad();
  }
  const double bytes = number * found->factor;
  if (bytes >= 9.2e18) {
    return bad();
  }
  return static_cast<std::int64_t>(std::llround(bytes));
}

std::string format_size(std::int64_t bytes) {
  constexpr std::array<const char*, 5> names{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::fabs(value) >= 1024 && unit + 1 < names.size()) {
    value /= 1024;
    ++unit;
  }
  const bool whole = unit == 0 || std::fabs(value) >= 100;
  return fixed(value, whole ? 0 : std::fabs(value) >= 10 ? 1 : 2, names[unit]);
}

std::string format_seconds(double seconds) {
  if (seconds < 0.0995) {
    return three_digits(seconds * 1e3, "ms");
  }
  if (seconds < 99.5) {
    return three_digits(seconds, "s");
  }
  const auto total = static_cast<std::int64_t>(std::llround(seconds));
  const bool hours = total >= 3600;
  const std::int64_t big = hours ? total / 3600 : total / 60;
  const std::int64_t small = hours ? total % 3600 / 60 : total % 60;
  return std::to_string(big) + (hours ? " h " : " min ") + (small < 10 ? "0" : "") +
         std::to_string(small) + (hours ? " min" : " s");
}

}  // namespace parbuckle
