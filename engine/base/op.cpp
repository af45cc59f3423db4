#include "engine/base/op.h"

#include <cstddef>

#include "engine/base/describe.h"

namespace parbuckle {

std::string_view to_string(OpKind kind) {
  return words_of(kind)[static_cast<std::size_t>(kind)];
}

std::optional<OpKind> op_kind_from_string(std::string_view name) {
  const auto words = words_of(OpKind{});
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == name) {
      return static_cast<OpKind>(i);
    }
  }
  return std::nullopt;
}

std::string_view to_string(Activation activation) {
  return words_of(activation)[static_cast<std::size_t>(activation)];
}

}  // namespace parbuckle
