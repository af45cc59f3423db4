#include "engine/checkpoint/config_keys.h"

#include <cmath>
#include <limits>

#include "engine/checkpoint/quote.h"

namespace parbuckle {

void ConfigKeys::refuse(std::string_view key, const std::string& allowed) {
  const Json* const value = find(key);
  const std::string name = parent_ + std::string(key);
  fail(invalid(file_ + ": " + quote(name) +
               (value == nullptr ? " is missing; it must be " + allowed
                                 : " is " + shown(*value) + "; it must be " + allowed)));
}

const Json* ConfigKeys::find(std::string_view key) {
  know(key);
  const auto at = object_.find(std::string(key));
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

std::int64_t ConfigKeys::size(std::string_view key, std::int64_t most) {
  const std::optional<std::int64_t> value = optional_size(key, most);
  if (!value) {
    refuse(key, "an integer from 1 to " + std::to_string(most));
  }
  return value.value_or(1);
}

std::optional<std::int64_t> ConfigKeys::optional_size(std::string_view key, std::int64_t most) {
  const std::optional<std::int64_t> value = integer(key);
  if (value && (*value < 1 || *value > most)) {
    refuse(key, "an integer from 1 to " + std::to_string(most));
    return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> ConfigKeys::integer(std::string_view key) {
  const Json* const value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const bool fits = value->is_number_unsigned()
                        ? value->get<std::uint64_t>() <=
                              static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
                        : value->is_number_integer();
  if (!fits) {
    refuse(key, "an integer");
    return std::nullopt;
  }
  return value->get<std::int64_t>();
}

bool ConfigKeys::boolean(std::string_view key, bool otherwise) {
  const Json* const value = find(key);
  if (value == nullptr) {
    return otherwise;
  }
  if (!value->is_boolean()) {
    refuse(key, "true or false");
    return otherwise;
  }
  return value->get<bool>();
}

std::optional<double> ConfigKeys::number(std::string_view key) {
  const Json* const value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    refuse(key, "a finite number");
    return std::nullopt;
  }
  return value->get<double>();
}

std::optional<double> ConfigKeys::positive(std::string_view key) {
  const std::optional<double> value = number(key);
  if (value && *value <= 0) {
    refuse(key, "greater than 0");
    return std::nullopt;
  }
  return value;
}

std::optional<std::string> ConfigKeys::text(std::string_view key) {
  const Json* const value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_string()) {
    refuse(key, "a string");
    return std::nullopt;
  }
  return value->get<std::string>();
}

std::vector<std::int32_t> ConfigKeys::token_ids(std::string_view key) {
  const Json* const value = find(key);
  if (value == nullptr) {
    return {};
  }
  const Json list = value->is_array() ? *value : Json::array({*value});
  std::vector<std::int32_t> ids;
  for (const Json& id : list) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < -1 ||
        id.get<std::int64_t>() > std::numeric_limits<std::int32_t>::max()) {
      refuse(key, "a token id or a list of token ids");
      return {};
    }
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

std::vector<std::string> ConfigKeys::unknown() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : object_.items()) {
    if (!value.is_null() && !known_.contains(key)) {
      names.push_back(key);
    }
  }
  return names;
}

}  // namespace parbuckle
