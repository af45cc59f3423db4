// Positions in the vectors of a Workload, a Program list or a Plan, each of its own type.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace parbuckle {

template <class Tag>
struct Id {
  std::int32_t value = -1;

  constexpr Id() = default;
  constexpr explicit Id(std::int64_t v) : value(static_cast<std::int32_t>(v)) {}
  constexpr explicit Id(std::size_t v) : value(static_cast<std::int32_t>(v)) {}
  [[nodiscard]] constexpr bool valid() const { return value >= 0; }
  /// REQUIRES: valid().
  [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
  friend constexpr auto operator<=>(Id, Id) = default;
};

using ValueId = Id<struct ValueTag>;            // Graph::values
using BlockId = Id<struct BlockTag>;            // Workload::blocks
using SpanId = Id<struct SpanTag>;              // Workload::spans
using UnitId = Id<struct UnitTag>;              // Workload::units
using FamilyId = Id<struct FamilyTag>;          // Workload::families
using ProgramId = Id<struct ProgramTag>;        // the program list that goes with a Workload
using AllocationId = Id<struct AllocationTag>;  // Plan::allocations
using TransferId = Id<struct TransferTag>;      // Plan::transfers
using LaneId = Id<struct LaneTag>;              // Hardware::lanes

}  // namespace parbuckle
