#include "offload/plan/evaluate.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "parbuckle/units.h"

#include "offload/plan/assemble.h"
#include "offload/plan/bound.h"
#include "offload/plan/simulate.h"
#include "offload/plan/stage.h"

namespace parbuckle {
namespace {

// One span that could stay in memory, and what that changes.
struct Pin {
  SpanId span;
  bool gradient = false;
  double saved_per_byte = 0;
  std::uint32_t spread =
      0;  // order among equals: all over the units, so that no stretch of the step is left without
  std::vector<Visit> streamed;
  std::vector<Visit> pinned;
};

void add(std::vector<std::int64_t>& live, const std::vector<Visit>& visits, std::int64_t sign) {
  for (const Visit& visit : visits) {
    for (const TaskRange range : visit.ranges()) {
      for (std::int32_t task = range.first; task <= range.last; ++task) {
        live[static_cast<std::size_t>(task)] += sign * visit.bytes;
      }
    }
  }
}

std::int64_t traffic(const std::vector<Visit>& visits) {
  std::int64_t bytes = 0;
  for (const Visit& visit : visits) {
    for (const Fetch& fetch : visit.fetches) {
      bytes += fetch.bytes;
    }
    for (const Drain& drain : visit.drains) {
      bytes += drain.bytes;
    }
  }
  return bytes;
}

// What tasks of the host's lane read and change of a span that exists once, in bytes.
std::int64_t host_traffic(const Workload& workload, const Expanded& expanded, SpanId span) {
  const auto object = static_cast<std::size_t>(expanded.uses.first_object[span.index()]);
  std::int64_t bytes = 0;
  for (const UseAt& use : expanded.uses.uses[object]) {
    const Span& of = workload.spans[span.index()];
    const std::int64_t size =
        use.block < 0
            ? of.bytes
            : workload.blocks[of.blocks[static_cast<std::size_t>(use.block)].index()].bytes;
    const int passes = use.access == Access::update ? 2 : 1;
    bytes += use.lane == LaneKind::host_compute ? passes * size : 0;
  }
  return bytes;
}

bool is_gradient(Role role) {
  return role == Role::gradient || role == Role::sparse_gradient;
}

// The bits of a position in reverse: 0, 1/2, 1/4, 3/4, ... of the whole.
std::uint32_t spread_position(std::uint32_t i) {
  std::uint32_t reversed = 0;
  for (int bit = 0; bit < 16; ++bit) {
    reversed = (reversed << 1U) | ((i >> static_cast<unsigned>(bit)) & 1U);
  }
  return reversed;
}

class Pinning {
 public:
  Pinning(const Workload& workload, const Choice& choice, const Expanded& expanded)
      : workload_(workload), choice_(choice), expanded_(expanded) {}

  Status collect() {
    for (std::size_t s = 0; s < workload_.spans.size(); ++s) {
      const SpanId span(s);
      const Block& block = workload_.blocks[workload_.spans[s].blocks.front().index()];
      const bool can = block.persistent || is_gradient(block.role);
      if (can && !always_resident(workload_, span)) {
        PARBUCKLE_TRY(collect(span, block.role));
      }
    }
    std::stable_sort(pins_.begin(), pins_.end(), [](const Pin& a, const Pin& b) {
      return std::make_tuple(!a.gradient, -a.saved_per_byte, a.spread) <
             std::make_tuple(!b.gradient, -b.saved_per_byte, b.spread);
    });
    return Status();
  }

  [[nodiscard]] std::vector<SpanId> choose(std::vector<std::int64_t> live,
                                           std::int64_t target) const {
    std::vector<SpanId> chosen;
    for (const Pin& pin : pins_) {
      add(live, pin.streamed, -1);
      add(live, pin.pinned, 1);
      if (*std::max_element(live.begin(), live.end()) <= target) {
        chosen.push_back(pin.span);
        continue;
      }
      add(live, pin.pinned, -1);
      add(live, pin.streamed, 1);
    }
    std::sort(chosen.begin(), chosen.end());
    return chosen;
  }

 private:
  Status collect(SpanId span, Role role) {
    Pin pin;
    pin.span = span;
    pin.gradient = is_gradient(role);
    pin.spread = spread_position(static_cast<std::uint32_t>(pins_.size()));
    PARBUCKLE_ASSIGN(pin.streamed,
                     visits_of_span(workload_, choice_, expanded_.chain, expanded_.uses, span));
    Choice with = choice_;
    with.resident.push_back(span);
    PARBUCKLE_ASSIGN(pin.pinned,
                     visits_of_span(workload_, with, expanded_.chain, expanded_.uses, span));
    const std::int64_t saved = traffic(pin.streamed) - traffic(pin.pinned);
    if (saved == 0) {
      return Status();
    }
    pin.saved_per_byte =
        static_cast<double>(saved) / static_cast<double>(workload_.spans[span.index()].bytes);
    pins_.push_back(std::move(pin));
    return Status();
  }

  const Workload& workload_;
  const Choice& choice_;
  const Expanded& expanded_;
  std::vector<Pin> pins_;
};

bool uses_drive(const Plan& plan) {
  return std::any_of(plan.transfers.begin(), plan.transfers.end(), [](const Transfer& transfer) {
    return transfer.lane == LaneKind::nvme_read || transfer.lane == LaneKind::nvme_write;
  });
}

}  // namespace

std::int64_t moved_bytes(const Plan& plan) {
  std::int64_t bytes = 0;
  for (const RoleBytes& role : plan.bytes) {
    bytes += role.read + role.written + role.down + role.up;
  }
  return bytes;
}

Result<Evaluator> Evaluator::make(const Workload& workload, const Hardware& hardware) {
  PARBUCKLE_ASSIGN(FamilySeconds seconds, family_seconds(workload, hardware));
  return Evaluator(workload, hardware, std::move(seconds));
}

const Expanded& Evaluator::expanded(const Choice& choice) {
  auto& slot = expanded_[{
      choice.group, choice.window, choice.by_stage, choice.alternative, choice.host_updates}];
  if (slot == nullptr) {
    auto made = std::make_unique<Expanded>();
    made->chain = expand(*workload_, choice);
    made->uses = collect_uses(*workload_, made->chain, choice.by_stage);
    slot = std::move(made);
  }
  return *slot;
}

double Evaluator::compute_seconds(const Choice& choice) {
  double device = 0;
  double host = 0;
  for (const ChainTask& task : expanded(choice).chain) {
    (task.lane == LaneKind::host_compute ? host : device) += seconds_.of(task.family, task.lane);
  }
  return std::max(device, host);
}

Result<std::int64_t> Evaluator::least_arena(const Choice& choice, std::int64_t enough) {
  const Expanded& e = expanded(choice);
  PARBUCKLE_ASSIGN(const Schedule made, schedule(*workload_, choice, e.chain, e.uses));
  return place_tight(made, enough).arena_bytes;
}

Result<std::int64_t> Evaluator::visit_traffic(const Choice& choice) {
  const Expanded& e = expanded(choice);
  Choice streamed = choice;
  streamed.resident.clear();
  PARBUCKLE_ASSIGN(const Schedule made, schedule(*workload_, streamed, e.chain, e.uses));
  return visit_traffic_bytes(made, e.uses);
}

Result<Choice> Evaluator::pinned(const Choice& choice, std::int64_t capacity, std::int64_t slack) {
  const Expanded& e = expanded(choice);
  Choice best = choice;
  best.resident.clear();
  PARBUCKLE_ASSIGN(const Schedule streamed, schedule(*workload_, best, e.chain, e.uses));
  Pinning pinning(*workload_, best, e);
  PARBUCKLE_TRY(pinning.collect());
  const std::vector<std::int64_t> live = live_bytes(streamed.visits, e.tasks());
  std::int64_t target = capacity - slack;
  constexpr int tries = 4;
  for (int i = 0; i < tries && target > 0; ++i) {
    Choice with = best;
    with.resident = pinning.choose(live, target);
    if (with.resident.empty()) {
      return best;
    }
    PARBUCKLE_ASSIGN(const std::int64_t arena, least_arena(with, capacity));
    if (arena <= capacity) {
      return with;
    }
    target -= arena - capacity;  // lost between visits of different sizes
  }
  return best;
}

Result<std::int64_t> Evaluator::least_host(const Choice& choice) {
  if (!has_device()) {
    return std::int64_t{0};
  }
  const Expanded& e = expanded(choice);
  PARBUCKLE_ASSIGN(const Schedule made, schedule(*workload_, choice, e.chain, e.uses));
  return place_tight(stage(*workload_, choice, e.chain, e.uses, made).host).arena_bytes;
}

Result<Choice> Evaluator::hosted(const Choice& choice, std::int64_t capacity, std::int64_t slack) {
  const Expanded& e = expanded(choice);
  struct Candidate {
    SpanId span;
    std::int64_t bytes = 0;
    double saved_per_byte = 0;
  };
  Choice with = choice;
  with.hosted.clear();
  std::vector<Candidate> candidates;
  for (std::size_t s = 0; s < workload_->spans.size(); ++s) {
    const SpanId span(s);
    const Block& block = workload_->blocks[workload_->spans[s].blocks.front().index()];
    const bool resident =
        std::find(choice.resident.begin(), choice.resident.end(), span) != choice.resident.end();
    const std::int64_t by_host = host_traffic(*workload_, e, span);
    if (!block.persistent || (resident && by_host == 0) || always_resident(*workload_, span)) {
      continue;
    }
    PARBUCKLE_ASSIGN(const std::vector<Visit> visits,
                     visits_of_span(*workload_, with, e.chain, e.uses, span));
    const std::int64_t bytes = round_up(workload_->spans[s].bytes, page_bytes);
    candidates.push_back(
        {span, bytes, static_cast<double>(traffic(visits) + by_host) / static_cast<double>(bytes)});
  }
  std::stable_sort(
      candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
        return a.saved_per_byte > b.saved_per_byte;
      });
  // What stays staged needs less room the more is at home: once more with what was found.
  constexpr int rounds = 3;
  std::int64_t room_of_homes = 0;
  for (int round = 0; round < rounds; ++round) {
    PARBUCKLE_ASSIGN(const std::int64_t arena, least_host(with));
    std::int64_t left = capacity - slack - (arena - room_of_homes);
    std::vector<SpanId> chosen;
    std::int64_t held = 0;
    for (const Candidate& candidate : candidates) {
      if (candidate.bytes <= left) {
        chosen.push_back(candidate.span);
        left -= candidate.bytes;
        held += candidate.bytes;
      }
    }
    if (chosen.size() <= with.hosted.size() && round > 0) {
      break;
    }
    std::sort(chosen.begin(), chosen.end());
    Choice more = with;
    more.hosted = std::move(chosen);
    PARBUCKLE_ASSIGN(const std::int64_t needed, least_host(more));
    if (needed > capacity) {
      break;
    }
    with = std::move(more);
    room_of_homes = held;
  }
  return with;
}

bool Evaluator::has_lane(LaneKind kind) const {
  return std::any_of(hardware_->lanes.begin(), hardware_->lanes.end(), [&](const Lane& lane) {
    return lane.kind == kind && lane.bytes_per_s > 0;
  });
}

Result<std::optional<Plan>> Evaluator::plan_in(const Choice& choice, const Capacity& capacity) {
  const Expanded& e = expanded(choice);
  PARBUCKLE_ASSIGN(const Schedule made, schedule(*workload_, choice, e.chain, e.uses));
  const std::int64_t ahead = choice.prefetch * visit_traffic_bytes(made, e.uses);
  const Placement placement = place(made, e.tasks(), capacity.compute, ahead);
  if (placement.arena_bytes > capacity.compute) {
    return std::optional<Plan>();
  }
  Plan plan;
  if (has_device()) {
    const Staging staging = stage(*workload_, choice, e.chain, e.uses, made);
    const std::int64_t host_ahead = choice.prefetch * visit_traffic_bytes(staging.host, e.uses);
    const Placement host = place(staging.host, e.tasks(), capacity.host, host_ahead);
    if (host.arena_bytes > capacity.host) {
      return std::optional<Plan>();
    }
    const HostSide side{staging, host};
    plan = assemble(*workload_, choice, e.chain, made, placement, &side);
  } else {
    plan = assemble(*workload_, choice, e.chain, made, placement);
  }
  if (!has_drive() && uses_drive(plan)) {
    return std::optional<Plan>();
  }
  PARBUCKLE_ASSIGN(plan.predicted, simulate(plan, seconds_, *hardware_));
  ++plans_made_;
  return std::optional<Plan>(std::move(plan));
}

}  // namespace parbuckle
