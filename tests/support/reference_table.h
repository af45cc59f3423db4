// Every op of op.h as plain loops with float storage and double arithmetic: what tests compare programs and fast kernels
// with. Slow, and free of workspaces.
#pragma once

#include "engine/base/op.h"

namespace parbuckle {

OpTable reference_table();

}  // namespace parbuckle
