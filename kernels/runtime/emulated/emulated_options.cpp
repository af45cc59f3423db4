#include "kernels/runtime/emulated/emulated_options.h"

#include <charconv>
#include <optional>
#include <sstream>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

Status bad(std::string_view key, std::string_view found, std::string_view allowed) {
  return invalid("emulated device: " + std::string(key) + "='" + std::string(found) +
                 "', expected " + std::string(allowed));
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

bool drop_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) {
    return false;
  }
  text.remove_suffix(suffix.size());
  return true;
}

// "20us", "1.5ms", "0.001s".
std::optional<double> seconds(std::string_view text) {
  const double unit = drop_suffix(text, "us")   ? 1e-6
                      : drop_suffix(text, "ms") ? 1e-3
                      : drop_suffix(text, "s")  ? 1
                                                : 0;
  const std::optional<double> value = number(text);
  return value && unit > 0 && *value >= 0 ? std::optional(*value * unit) : std::nullopt;
}

Status set_option(std::string_view key, std::string_view value, EmulatedOptions& options) {
  if (key == "memory") {
    const Result<std::int64_t> bytes = parse_size(value);
    if (!bytes.ok() || *bytes < page_bytes) {
      return bad(key, value, "a size of at least 4096 bytes, as in 512MiB");
    }
    options.memory_bytes = *bytes;
  } else if (key == "link") {
    std::string_view size = value;
    const bool per_second = drop_suffix(size, "/s");
    const Result<std::int64_t> bytes = parse_size(size);
    if (!per_second || !bytes.ok() || *bytes < 1) {
      return bad(key, value, "a bandwidth, as in 1GB/s");
    }
    options.link_bytes_per_s = *bytes;
  } else if (key == "latency") {
    const std::optional<double> latency = seconds(value);
    if (!latency) {
      return bad(key, value, "a time, as in 20us");
    }
    options.latency_s = *latency;
  } else if (key == "duplex") {
    if (value != "full" && value != "shared") {
      return bad(key, value, "full or shared");
    }
    options.duplex = value == "full" ? LinkDuplex::full : LinkDuplex::shared;
  } else if (key == "speed") {
    const std::optional<double> speed = number(value);
    if (!speed || *speed < 0.001 || *speed > 1) {
      return bad(key, value, "0.001 to 1: a device can be slowed, not sped up");
    }
    options.speed = *speed;
  } else if (key == "cores") {
    const std::optional<double> cores = number(value);
    if (!cores || *cores < 1 || *cores > 4096 || *cores != static_cast<int>(*cores)) {
      return bad(key, value, "a whole number from 1");
    }
    options.cores = static_cast<int>(*cores);
  } else {
    return invalid("emulated device: unknown key '" + std::string(key) +
                   "'; allowed: memory, link, latency, duplex, speed, cores");
  }
  return Status();
}

}  // namespace

Result<EmulatedOptions> parse_emulated(std::string_view text) {
  EmulatedOptions options;
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) {
      return invalid("emulated device: '" + std::string(pair) + "', expected key=value");
    }
    PARBUCKLE_TRY(set_option(pair.substr(0, equals), pair.substr(equals + 1), options));
  }
  if (options.memory_bytes == 0 || options.link_bytes_per_s == 0) {
    return invalid(
        "emulated device: memory and link must be given, as in "
        "emulated:memory=512MiB,link=1GB/s");
  }
  return options;
}

std::string to_string(const EmulatedOptions& options) {
  std::ostringstream out;
  out << "memory=" << options.memory_bytes << ",link=" << options.link_bytes_per_s
      << "/s,latency=" << options.latency_s
      << "s,duplex=" << (options.duplex == LinkDuplex::full ? "full" : "shared")
      << ",speed=" << options.speed << ",cores=" << options.cores;
  return out.str();
}

}  // namespace parbuckle
