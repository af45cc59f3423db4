#include "engine/base/op.h"

#include <cstddef>

#include "engine/base/describe.h"

namespace parbuckle {

std::string_view to_string(OpKind kind) {
  return words_of(kind)[static_cast<std::size_t>(kind)];
}

std::string_view to_string(Activation activation) {
  return words_of(activation)[static_cast<std::size_t>(activation)];
}

}  // namespace parbuckle
