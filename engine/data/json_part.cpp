#include "engine/data/json_part.h"

#include <algorithm>

#include "engine/data/shown.h"

namespace parbuckle {

using Json = nlohmann::ordered_json;

const Json* JsonPart::find(std::string_view key) const {
  const auto found = json_->find(std::string(key));
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

Status JsonPart::wrong(std::string_view key, std::string_view expected) const {
  const Json* found = find(key);
  return invalid(path_ + "." + std::string(key) + ": expected " + std::string(expected) +
                 ", found " + (found == nullptr ? "nothing" : shown(found->dump())));
}

Status JsonPart::only(std::initializer_list<std::string_view> known) const {
  PARBUCKLE_TRY(is_object());
  for (const auto& [key, unused] : json_->items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return unsupported(path_ + ": the key " + shown(key) + " is not known");
    }
  }
  return {};
}

Status JsonPart::is_object() const {
  if (!json_->is_object()) {
    return invalid(path_ + ": expected an object, found " + shown(json_->dump()));
  }
  return {};
}

bool JsonPart::has(std::string_view key) const {
  return find(key) != nullptr;
}

Result<JsonPart> JsonPart::object(std::string_view key) const {
  const Json* found = find(key);
  if (found == nullptr || !found->is_object()) {
    return wrong(key, "an object");
  }
  return JsonPart(*found, path_ + "." + std::string(key));
}

Result<std::vector<JsonPart>> JsonPart::array(std::string_view key) const {
  const Json* found = find(key);
  if (found == nullptr || !found->is_array()) {
    return wrong(key, "an array");
  }
  std::vector<JsonPart> parts;
  for (std::size_t i = 0; i < found->size(); ++i) {
    parts.emplace_back((*found)[i], path_ + "." + std::string(key) + "[" + std::to_string(i) + "]");
  }
  return parts;
}

Result<std::string> JsonPart::text(std::string_view key) const {
  const Json* found = find(key);
  if (found == nullptr || !found->is_string()) {
    return wrong(key, "a string");
  }
  return found->get<std::string>();
}

Result<std::string> JsonPart::text_or(std::string_view key, std::string_view absent) const {
  return has(key) ? text(key) : std::string(absent);
}

Result<bool> JsonPart::flag_or(std::string_view key, bool absent) const {
  const Json* found = find(key);
  if (found == nullptr) {
    return absent;
  }
  if (!found->is_boolean()) {
    return wrong(key, "true or false");
  }
  return found->get<bool>();
}

Result<double> JsonPart::number_or(std::string_view key, double absent) const {
  const Json* found = find(key);
  if (found == nullptr) {
    return absent;
  }
  if (!found->is_number()) {
    return wrong(key, "a number");
  }
  return found->get<double>();
}

Result<std::int32_t> JsonPart::token_id(std::string_view key) const {
  constexpr std::uint64_t most = std::uint64_t{1} << 24U;
  const Json* found = find(key);
  if (found == nullptr || !found->is_number_unsigned() || found->get<std::uint64_t>() > most) {
    return wrong(key, "a whole number from 0 to 16777216");
  }
  return static_cast<std::int32_t>(found->get<std::uint64_t>());
}

}  // namespace parbuckle
