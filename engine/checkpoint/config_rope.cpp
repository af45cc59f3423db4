#include "engine/checkpoint/config_rope.h"

#include <limits>
#include <string>

#include "engine/checkpoint/quote.h"

namespace parbuckle {
namespace {

constexpr double default_theta = 10000;

/// One of the two objects that may hold the scaling.
class RopeObject {
 public:
  RopeObject(const Json& object, const std::string& file, const std::string& key)
      : keys_(object, file, key + "."), key_(key) {}

  RopeConfig read() {
    const std::string type = read_type();
    if (!keys_.fault().ok()) {
      return rope_;
    }
    if (const std::optional<double> part = keys_.number("partial_rotary_factor");
        part && *part != 1) {
      keys_.refuse("partial_rotary_factor", "1");
    }
    const std::optional<std::int64_t> original = keys_.optional_size(
        "original_max_position_embeddings", std::numeric_limits<std::int32_t>::max());
    if (type == "default") {
      if (const std::optional<double> factor = keys_.number("factor"); factor && *factor != 1) {
        keys_.refuse("factor", "absent or 1 for type 'default'");
      }
    } else if (type == "linear") {
      rope_.type = RopeType::linear;
      rope_.factor = required("factor");
    } else if (type == "llama3") {
      read_llama3(original);
    } else {
      keys_.fail(unsupported(keys_.file() + ": '" + key_ + "' has rope type " + quote(type) +
                             ", which is not implemented; allowed are default, linear, llama3"));
    }
    if (const std::vector<std::string> unknown = keys_.unknown(); !unknown.empty()) {
      keys_.fail(unsupported(keys_.file() + ": '" + key_ + "' of type " + quote(type) +
                             " has the unknown key " + quote(unknown.front())));
    }
    return rope_;
  }

  std::optional<double> theta() { return keys_.positive("rope_theta"); }
  [[nodiscard]] const Status& fault() const { return keys_.fault(); }

 private:
  std::string read_type() {
    const std::optional<std::string> older = keys_.text("type");
    const std::optional<std::string> newer = keys_.text("rope_type");
    if (older && newer && *older != *newer) {
      keys_.refuse("rope_type", "equal to 'type', which is " + quote(*older));
    }
    return newer ? *newer : older.value_or("default");
  }
  double required(const char* key) {
    const std::optional<double> value = keys_.positive(key);
    if (!value) {
      keys_.refuse(key, "a number greater than 0");
    }
    return value.value_or(1);
  }
  void read_llama3(const std::optional<std::int64_t>& original) {
    rope_.type = RopeType::llama3;
    rope_.factor = required("factor");
    rope_.low_freq_factor = required("low_freq_factor");
    rope_.high_freq_factor = required("high_freq_factor");
    if (!original) {
      keys_.refuse("original_max_position_embeddings", "an integer of at least 1");
    }
    rope_.original_positions = original.value_or(1);
    if (keys_.fault().ok() && rope_.high_freq_factor <= rope_.low_freq_factor) {
      keys_.refuse("high_freq_factor", "greater than 'low_freq_factor'");
    }
  }

  ConfigKeys keys_;
  std::string key_;
  RopeConfig rope_;
};

}  // namespace

RopeConfig read_rope(ConfigKeys& keys) {
  RopeConfig rope;
  std::optional<double> theta = keys.positive("rope_theta");
  const Json* const older = keys.find("rope_scaling");
  const Json* const newer = keys.find("rope_parameters");
  if (older != nullptr && newer != nullptr) {
    keys.refuse("rope_scaling", "absent where 'rope_parameters' is given");
  }
  if (older != nullptr || newer != nullptr) {
    const std::string key = older != nullptr ? "rope_scaling" : "rope_parameters";
    const Json& value = older != nullptr ? *older : *newer;
    if (!value.is_object()) {
      keys.refuse(key, "an object");
      return rope;
    }
    RopeObject object(value, keys.file(), key);
    const std::optional<double> inner = object.theta();
    rope = object.read();
    keys.fail(object.fault());
    if (theta && inner && *theta != *inner) {
      keys.refuse("rope_theta", "equal to the one in '" + key + "'");
    }
    theta = theta ? theta : inner;
  }
  rope.theta = theta.value_or(default_theta);
  return rope;
}

}  // namespace parbuckle
