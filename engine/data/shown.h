// Text of a user's file inside a one-line message.
#pragma once

#include <string>
#include <string_view>

namespace parbuckle {

/// `text` in quotes, control characters and invalid bytes escaped, cut to some 60 characters.
std::string shown(std::string_view text);

}  // namespace parbuckle
