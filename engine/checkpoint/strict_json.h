// JSON of model folders, read strictly: no duplicate keys, bounded nesting, no NaN, valid UTF-8, nothing after the value.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "parbuckle/status.h"

namespace parbuckle {

using Json = nlohmann::ordered_json;

/// The value of `text`; `name` is the file that messages speak of. Nesting beyond 64 levels is refused.
Result<Json> parse_strict_json(std::string_view text, const std::string& name);

/// The same, and the value must be an object.
Result<Json> parse_json_object(std::string_view text, const std::string& name);

/// A value as it may stand in a message: at most 60 bytes of its JSON.
std::string shown(const Json& value);

/// What nlohmann's parser says, without its own prefix.
std::string json_fault(const nlohmann::json::exception& fault);

}  // namespace parbuckle
