#include "engine/base/json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/describe.h"

namespace parbuckle {
namespace {

using Json = nlohmann::ordered_json;

Json write(bool value) {
  return value;
}
Json write(std::int32_t value) {
  return value;
}
Json write(std::int64_t value) {
  return value;
}
Json write(double value) {
  return value;
}
Json write(float value) {
  return static_cast<double>(value);
}
Json write(const std::string& value) {
  return value;
}
template <class Tag>
Json write(Id<Tag> id) {
  return id.value;
}
template <class T>
requires std::is_enum_v<T> Json write(T value) {
  return std::string(words_of(value)[static_cast<std::size_t>(value)]);
}
template <class T>
requires std::is_class_v<T> Json write(const T& value);
template <class T>
Json write(const std::vector<T>& values) {
  Json out = Json::array();
  for (const T& value : values) {
    out.push_back(write(value));
  }
  return out;
}
template <class T>
requires std::is_class_v<T> Json write(const T& value) {
  Json out = Json::object();
  describe(value, [&out](const char* name, const auto& member) { out[name] = write(member); });
  return out;
}

// Reading: the first fault wins and is kept with its path.
struct Reader {
  Status fault;

  void fail(const std::string& path, const std::string& expected, const Json& found) {
    if (fault.ok()) {
      std::string shown = found.dump();
      if (shown.size() > 60) {
        shown = shown.substr(0, 57) + "...";
      }
      fault = invalid(path + ": expected " + expected + ", found " + shown);
    }
  }

  void read(const Json& from, const std::string& path, bool& into) {
    from.is_boolean() ? void(into = from.get<bool>()) : fail(path, "true or false", from);
  }
  void read(const Json& from, const std::string& path, std::int32_t& into) {
    std::int64_t wide = 0;
    read(from, path, wide);
    into = static_cast<std::int32_t>(wide);
    if (into != wide) {
      fail(path, "a 32-bit integer", from);
    }
  }
  void read(const Json& from, const std::string& path, std::int64_t& into) {
    from.is_number_integer() ? void(into = from.get<std::int64_t>())
                             : fail(path, "an integer", from);
  }
  void read(const Json& from, const std::string& path, double& into) {
    from.is_number() ? void(into = from.get<double>()) : fail(path, "a number", from);
  }
  void read(const Json& from, const std::string& path, float& into) {
    double wide = 0;
    read(from, path, wide);
    into = static_cast<float>(wide);
  }
  void read(const Json& from, const std::string& path, std::string& into) {
    from.is_string() ? void(into = from.get<std::string>()) : fail(path, "a string", from);
  }
  template <class Tag>
  void read(const Json& from, const std::string& path, Id<Tag>& into) {
    read(from, path, into.value);
  }
  template <class T>
  requires std::is_enum_v<T>
  void read(const Json& from, const std::string& path, T& into) {
    const auto words = words_of(T{});
    std::string allowed = "one of";
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (from.is_string() && from.get_ref<const std::string&>() == words[i]) {
        into = static_cast<T>(i);
        return;
      }
      allowed += " " + std::string(words[i]);
    }
    fail(path, allowed, from);
  }
  template <class T>
  void read(const Json& from, const std::string& path, std::vector<T>& into) {
    if (!from.is_array()) {
      return fail(path, "an array", from);
    }
    into.assign(from.size(), T{});
    for (std::size_t i = 0; i < from.size() && fault.ok(); ++i) {
      read(from[i], path + "[" + std::to_string(i) + "]", into[i]);
    }
  }
  template <class T>
  requires std::is_class_v<T>
  void read(const Json& from, const std::string& path, T& into) {
    if (!from.is_object()) {
      return fail(path, "an object", from);
    }
    std::vector<std::string> known;
    describe(into, [&](const char* name, auto& member) {
      known.emplace_back(name);
      const auto found = from.find(name);
      if (found == from.end()) {
        return fail(path + "." + name, "a value", Json("nothing"));
      }
      read(*found, path + "." + name, member);
    });
    for (const auto& [key, unused] : from.items()) {
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        fail(path + "." + key, "no such key", unused);
      }
    }
  }
};

template <class T>
Result<T> parse(std::string_view text, const char* what) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return invalid(std::string(what) + ": not valid JSON");
  }
  T value;
  Reader reader;
  reader.read(json, what, value);
  if (!reader.fault.ok()) {
    return reader.fault;
  }
  return value;
}

}  // namespace

std::string to_json(const Graph& value) {
  return write(value).dump(1);
}
std::string to_json(const Program& value) {
  return write(value).dump(1);
}
std::string to_json(const Workload& value) {
  return write(value).dump(1);
}
std::string to_json(const Hardware& value) {
  return write(value).dump(1);
}
std::string to_json(const Budgets& value) {
  return write(value).dump(1);
}
std::string to_json(const Plan& value) {
  return write(value).dump(1);
}
std::string to_json(const StepTrace& value) {
  return write(value).dump(1);
}

Result<Graph> graph_from_json(std::string_view text) {
  return parse<Graph>(text, "graph");
}
Result<Program> program_from_json(std::string_view text) {
  return parse<Program>(text, "program");
}
Result<Workload> workload_from_json(std::string_view text) {
  return parse<Workload>(text, "workload");
}
Result<Hardware> hardware_from_json(std::string_view text) {
  return parse<Hardware>(text, "hardware");
}
Result<Budgets> budgets_from_json(std::string_view text) {
  return parse<Budgets>(text, "budgets");
}
Result<Plan> plan_from_json(std::string_view text) {
  return parse<Plan>(text, "plan");
}
Result<StepTrace> step_trace_from_json(std::string_view text) {
  return parse<StepTrace>(text, "step_trace");
}

}  // namespace parbuckle
