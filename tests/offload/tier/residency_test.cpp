#include "offload/tier/residency.h"

#include <map>
#include <utility>

#include <gtest/gtest.h>

namespace parbuckle {
namespace {

using State = ResidencyState;
using Event = ResidencyEvent;

// The legal pairs, written down a second time on purpose.
const std::map<std::pair<State, Event>, State> legal = {
    {{State::absent, Event::reserve}, State::reserved},
    {{State::reserved, Event::fill_begin}, State::filling},
    {{State::reserved, Event::write}, State::live},
    {{State::reserved, Event::release}, State::absent},
    {{State::filling, Event::fill_end}, State::live},
    {{State::live, Event::write}, State::live},
    {{State::live, Event::drain_begin}, State::draining},
    {{State::live, Event::release}, State::absent},
    {{State::draining, Event::drain_end}, State::live},
};

/// A residency of one cell brought to `state` by legal events.
void bring(Residency& residency, State state) {
  const std::map<State, std::vector<Event>> ways = {
      {State::absent, {}},
      {State::reserved, {Event::reserve}},
      {State::filling, {Event::reserve, Event::fill_begin}},
      {State::live, {Event::reserve, Event::write}},
      {State::draining, {Event::reserve, Event::write, Event::drain_begin}},
  };
  for (const Event event : ways.at(state)) {
    ASSERT_TRUE(residency.apply(0, event).ok());
  }
  ASSERT_EQ(residency.state(0), state);
}

TEST(Residency, EveryPairOfStateAndEvent) {
  for (int s = 0; s < residency_state_count; ++s) {
    for (int e = 0; e < residency_event_count; ++e) {
      const auto state = static_cast<State>(s);
      const auto event = static_cast<Event>(e);
      Residency residency({"layer3.mlp.weight"});
      bring(residency, state);
      const Status status = residency.apply(0, event);
      const auto expected = legal.find({state, event});
      if (expected != legal.end()) {
        EXPECT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(residency.state(0), expected->second);
      } else {
        EXPECT_EQ(status.code(), Code::internal);
        EXPECT_EQ(status.message(),
                  "block 'layer3.mlp.weight' is " + std::string(to_string(state)) + ": event " +
                      std::string(to_string(event)) + " is not allowed");
        EXPECT_EQ(residency.state(0), state) << "an illegal event must change nothing";
      }
    }
  }
}

TEST(Residency, BytesAreReadableWhileLiveOrDraining) {
  for (int s = 0; s < residency_state_count; ++s) {
    const auto state = static_cast<State>(s);
    Residency residency({"w"});
    bring(residency, state);
    EXPECT_EQ(residency.readable(0).ok(), state == State::live || state == State::draining);
  }
}

TEST(Residency, CellsAreIndependent) {
  Residency residency({"a", "b"});
  ASSERT_TRUE(residency.apply(1, Event::reserve).ok());
  EXPECT_EQ(residency.state(0), State::absent);
  EXPECT_EQ(residency.state(1), State::reserved);
}

}  // namespace
}  // namespace parbuckle
