// The operators that a parity test runs on: the reference ones or a device's. Each test binary links one definition.
#pragma once

#include <string>
#include <vector>

#include "engine/base/op.h"

namespace parbuckle {

OpTable table_under_test();

/// Folders of fixtures/models on which they are tested.
std::vector<std::string> models_under_test();

}  // namespace parbuckle
