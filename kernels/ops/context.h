// What operators on a device run in, and what they report about data: they only enqueue, so a row that points outside its
// table is found by a kernel and read afterwards.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <simt/simt.h>

#include "parbuckle/status.h"

namespace parbuckle::cuda {

/// Kinds of data faults; each has a cell that keeps the smallest code written to it.
enum class DataFault { position, target, gradient };
inline constexpr std::int64_t data_faults = 3;
inline constexpr std::int64_t no_fault = std::numeric_limits<std::int64_t>::max();

/// The cells as the host sees them after a copy.
using DataFaults = std::array<std::int64_t, data_faults>;

struct Context {
  simt::Queue queue;
  std::int64_t* faults = nullptr;  // data_faults cells of device memory, no_fault at first
};

/// A row and the id that it holds, in one code: the smallest code is the first row's.
SIMT_HOST_DEVICE constexpr std::int64_t row_fault(std::int64_t row, std::int64_t id) {
  return row * (std::int64_t{1} << 32) + id;
}

/// Enqueues: the cells become no_fault.
Status clear_faults(const Context& context);
/// The error that the cells describe, ok where they are all no_fault.
Status fault_status(const DataFaults& faults);

}  // namespace parbuckle::cuda
