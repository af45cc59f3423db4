#include "offload/tier/residency.h"

#include <array>
#include <utility>

namespace parbuckle {
namespace {

using State = ResidencyState;
using Next = std::optional<ResidencyState>;
constexpr Next no = std::nullopt;

// Rows: states. Columns: reserve, fill_begin, fill_end, write, drain_begin, drain_end, release.
constexpr std::array<std::array<Next, residency_event_count>, residency_state_count> table = {{
    {State::reserved, no, no, no, no, no, no},                      // absent
    {no, State::filling, no, State::live, no, no, State::absent},   // reserved
    {no, no, State::live, no, no, no, no},                          // filling
    {no, no, no, State::live, State::draining, no, State::absent},  // live
    {no, no, no, no, no, State::live, no},                          // draining
}};

constexpr std::array<std::string_view, residency_state_count> state_words = {
    "absent", "reserved", "filling", "live", "draining"};
constexpr std::array<std::string_view, residency_event_count> event_words = {
    "reserve", "fill_begin", "fill_end", "write", "drain_begin", "drain_end", "release"};

}  // namespace

std::string_view to_string(ResidencyState state) {
  return state_words[static_cast<std::size_t>(state)];
}

std::string_view to_string(ResidencyEvent event) {
  return event_words[static_cast<std::size_t>(event)];
}

std::optional<ResidencyState> next_state(ResidencyState state, ResidencyEvent event) {
  return table[static_cast<std::size_t>(state)][static_cast<std::size_t>(event)];
}

Residency::Residency(std::vector<std::string_view> names)
    : names_(std::move(names)), states_(names_.size(), ResidencyState::absent) {
}

Status Residency::apply(std::size_t cell, ResidencyEvent event) {
  const std::lock_guard lock(mutex_);
  const Next next = next_state(states_[cell], event);
  if (!next.has_value()) {
    return refused(cell, to_string(event));
  }
  states_[cell] = *next;
  return {};
}

Status Residency::readable(std::size_t cell) const {
  const std::lock_guard lock(mutex_);
  const bool yes = states_[cell] == ResidencyState::live || states_[cell] == State::draining;
  return yes ? Status() : refused(cell, "read");
}

ResidencyState Residency::state(std::size_t cell) const {
  const std::lock_guard lock(mutex_);
  return states_[cell];
}

Status Residency::refused(std::size_t cell, std::string_view event) const {
  return internal_error("block '" + std::string(names_[cell]) + "' is " +
                        std::string(to_string(states_[cell])) + ": event " + std::string(event) +
                        " is not allowed");
}

}  // namespace parbuckle
