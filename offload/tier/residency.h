// Where the bytes of a block stand in a tier instance: one table of (state, event) for weights, gradients, optimizer
// state and activations alike. Nothing else changes a state.
//
//            reserve    fill_begin  fill_end  write  drain_begin  drain_end  release
// absent     reserved   -           -         -      -            -          -
// reserved   -          filling     -         live   -            -          absent
// filling    -          -           live      -      -            -          -
// live       -          -           -         live   draining     -          absent
// draining   -          -           -         -      -            live       -
//
// A block that drains may be read, and not written: the bytes on their way out must be of one version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parbuckle/status.h"

namespace parbuckle {

enum class ResidencyState : std::uint8_t { absent, reserved, filling, live, draining };
inline constexpr int residency_state_count = 5;
enum class ResidencyEvent : std::uint8_t {
  reserve,
  fill_begin,
  fill_end,
  write,
  drain_begin,
  drain_end,
  release
};
inline constexpr int residency_event_count = 7;

std::string_view to_string(ResidencyState state);
std::string_view to_string(ResidencyEvent event);

/// The table above; nullopt where it says "-".
std::optional<ResidencyState> next_state(ResidencyState state, ResidencyEvent event);

/// The states of many (block, place) cells. Safe to use from several threads; allocates nothing after construction.
class Residency {
 public:
  /// One cell per name, absent at first. Names are for messages and must outlive this object.
  explicit Residency(std::vector<std::string_view> names);

  /// An illegal pair is an internal error that names block, state and event; the state stays.
  Status apply(std::size_t cell, ResidencyEvent event);
  /// Internal error unless the bytes can be read: live or draining.
  [[nodiscard]] Status readable(std::size_t cell) const;
  [[nodiscard]] ResidencyState state(std::size_t cell) const;
  [[nodiscard]] std::size_t size() const { return names_.size(); }

 private:
  [[nodiscard]] Status refused(std::size_t cell, std::string_view event) const;

  std::vector<std::string_view> names_;
  mutable std::mutex mutex_;
  std::vector<ResidencyState> states_;
};

}  // namespace parbuckle
