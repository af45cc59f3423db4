#include "engine/base/operands.h"

namespace parbuckle {

namespace {

Status expect_count(const OpShape& op, std::size_t count) {
  if (op.operands.size() != count) {
    return internal_error(std::string(to_string(op.kind)) + ": " +
                          std::to_string(op.operands.size()) + " operands, expected " +
                          std::to_string(count));
  }
  return {};
}

Status expect_size(const OpShape& op, std::size_t index, std::int64_t expected) {
  const std::int64_t found = op.operands[index].elements();
  if (expected != any_size && found != expected) {
    return internal_error(std::string(to_string(op.kind)) + ": operand " + std::to_string(index) +
                          " has " + std::to_string(found) + " elements, expected " +
                          std::to_string(expected));
  }
  return {};
}

}  // namespace

Status expect_elements(const OpShape& op, std::initializer_list<std::int64_t> elements) {
  PARBUCKLE_TRY(expect_count(op, elements.size()));
  std::size_t index = 0;
  for (const std::int64_t expected : elements) {
    PARBUCKLE_TRY(expect_size(op, index++, expected));
  }
  return {};
}

Status expect_alike(const OpShape& op, std::size_t count) {
  PARBUCKLE_TRY(expect_count(op, count));
  for (std::size_t index = 0; index < count; ++index) {
    PARBUCKLE_TRY(expect_size(op, index, op.operands[0].elements()));
  }
  return {};
}

}  // namespace parbuckle
