// One line of a JSON-lines file: an object of which only the named fields are kept. Strict RFC 8259; what it does with
// text that has no UTF-8 form (lone surrogates, invalid bytes) is the caller's choice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parbuckle/status.h"

namespace parbuckle {

struct JsonFields {
  std::vector<std::string> texts;
  std::vector<std::string> integers;  // arrays of whole numbers
  bool replace_invalid = false;       // by U+FFFD, instead of refusing
};

struct JsonRecord {
  std::vector<std::optional<std::string>> texts;  // like JsonFields::texts
  std::vector<std::optional<std::vector<std::int32_t>>> integers;
  std::vector<std::string> keys;  // all of them, in order
  std::int64_t replaced = 0;      // lone surrogates and invalid runs that became U+FFFD
};

/// The message of a failure begins with "column N: " (bytes, from 1). Nesting is limited to 128.
Result<JsonRecord> read_json_record(std::string_view line, const JsonFields& fields);

}  // namespace parbuckle
