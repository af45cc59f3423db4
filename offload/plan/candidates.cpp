#include "offload/plan/candidates.h"

#include <algorithm>
#include <string>

#include "offload/plan/schedule.h"

namespace parbuckle {
namespace {

// Position of an alternative by name; -1 if the unit has none.
std::int32_t find_alternative(const Unit& unit, std::string_view name) {
  for (std::size_t a = 0; a < unit.alternatives.size(); ++a) {
    if (unit.alternatives[a].name == name) {
      return static_cast<std::int32_t>(a);
    }
  }
  return -1;
}

bool saves_activations(const Workload& workload, const Alternative& alternative) {
  for (const TaskTemplate& t : alternative.forward) {
    for (const Use& use : t.uses) {
      const Span& span = workload.spans[use.span.index()];
      if (workload.blocks[span.blocks.front().index()].role == Role::activation) {
        return true;
      }
    }
  }
  return false;
}

std::vector<std::int32_t> groups(const Workload& workload, const Forced& forced) {
  if (forced.group) {
    return {*forced.group};
  }
  std::vector<std::int32_t> found;
  for (std::int32_t m = workload.micro_batches; m >= 1; --m) {
    if (workload.micro_batches % m == 0) {
      found.push_back(m);
    }
  }
  return found;
}

std::vector<Window> windows(const Workload& workload, const Forced& forced) {
  if (workload.phase != Phase::train) {
    return {Window::after};
  }
  if (forced.window) {
    return {*forced.window};
  }
  return workload.clipping ? std::vector<Window>{Window::after, Window::lazy}
                           : std::vector<Window>{Window::after, Window::fused, Window::lazy};
}

std::vector<ActivationPolicy> policies(const Workload& workload, const Forced& forced) {
  if (workload.phase != Phase::train) {
    return {ActivationPolicy::keep};
  }
  if (forced.activations) {
    return {*forced.activations};
  }
  return {ActivationPolicy::keep, ActivationPolicy::spill, ActivationPolicy::recompute};
}

std::vector<WaitsIn> boundaries(const Workload& workload, const Forced& forced, WaitsIn lower) {
  if (forced.boundary) {
    return {*forced.boundary};
  }
  return workload.phase == Phase::train ? std::vector<WaitsIn>{WaitsIn::compute, lower}
                                        : std::vector<WaitsIn>{WaitsIn::compute};
}

Choice base_choice(const Workload& workload,
                   const Forced& forced,
                   ActivationPolicy policy,
                   WaitsIn lower) {
  Choice choice;
  choice.gradient = forced.gradient.value_or(lower);
  choice.alternative.assign(workload.units.size(), 0);
  choice.activation.assign(workload.units.size(), WaitsIn::compute);
  for (std::size_t unit = 0; unit < workload.units.size(); ++unit) {
    set_policy(workload, unit, policy, lower, choice);
  }
  choice.prefetch = forced.prefetch.value_or(4);
  return choice;
}

}  // namespace

std::string_view to_string(ActivationPolicy policy) {
  switch (policy) {
    case ActivationPolicy::keep:
      return "keep";
    case ActivationPolicy::spill:
      return "spill";
    case ActivationPolicy::recompute:
      return "recompute";
  }
  return "";
}

bool has_stages(const Workload& workload) {
  return std::any_of(workload.units.begin(), workload.units.end(), [](const Unit& unit) {
    return std::any_of(unit.alternatives.begin(),
                       unit.alternatives.end(),
                       [](const Alternative& a) { return a.backward.size() > 1; });
  });
}

Status check_forced(const Workload& workload, const Forced& forced) {
  if (forced.group && (*forced.group < 1 || *forced.group > workload.micro_batches)) {
    return invalid("--order: groups of " + std::to_string(*forced.group) +
                   " micro-batches, allowed 1 to " + std::to_string(workload.micro_batches));
  }
  if (forced.window == Window::fused && workload.clipping) {
    return invalid(
        "--optimizer-window fused: the gradient norm must be known before an update when clipping; "
        "allowed: after, lazy (or --max-grad-norm 0)");
  }
  if (forced.prefetch && *forced.prefetch < 0) {
    return invalid("--prefetch: " + std::to_string(*forced.prefetch) + ", allowed 0 and more");
  }
  return Status();
}

bool set_policy(const Workload& workload,
                std::size_t unit,
                ActivationPolicy policy,
                WaitsIn lower,
                Choice& choice) {
  const Unit& of = workload.units[unit];
  const std::int32_t keep = std::max(0, find_alternative(of, "keep"));
  const std::int32_t recompute = find_alternative(of, "recompute");
  choice.alternative[unit] = keep;
  choice.activation[unit] = WaitsIn::compute;
  if (!saves_activations(workload, of.alternatives[static_cast<std::size_t>(keep)])) {
    return false;
  }
  switch (policy) {
    case ActivationPolicy::keep:
      return true;
    case ActivationPolicy::spill:
      choice.activation[unit] = lower;
      return true;
    case ActivationPolicy::recompute:
      choice.alternative[unit] = recompute < 0 ? keep : recompute;
      return recompute >= 0;
  }
  return false;
}

std::optional<ActivationPolicy> policy_of(const Workload& workload,
                                          std::size_t unit,
                                          const Choice& choice) {
  Choice probe = choice;
  const WaitsIn lower =
      choice.activation[unit] == WaitsIn::compute ? WaitsIn::nvme : choice.activation[unit];
  for (const ActivationPolicy policy :
       {ActivationPolicy::keep, ActivationPolicy::spill, ActivationPolicy::recompute}) {
    if (set_policy(workload, unit, policy, lower, probe) &&
        probe.alternative[unit] == choice.alternative[unit] &&
        probe.activation[unit] == choice.activation[unit]) {
      return policy;
    }
  }
  return std::nullopt;
}

std::vector<SpanId> host_updatable(const Workload& workload) {
  const auto reachable = [&](const Use& use) {
    switch (workload.blocks[workload.spans[use.span.index()].blocks.front().index()].role) {
      case Role::weight:
      case Role::master_low:
      case Role::moment1:
      case Role::moment2:
      case Role::gradient:
      case Role::sparse_gradient:
        return !always_resident(workload, use.span);
      default:
        return is_mirrored(workload, use.span) && use.access == Access::read;
    }
  };
  std::vector<SpanId> spans;
  std::vector<bool> refused(workload.spans.size(), false);
  for (const Update& update : workload.updates) {
    const std::vector<Use>& uses = update.task.uses;
    refused[update.span.index()] =
        refused[update.span.index()] || !std::all_of(uses.begin(), uses.end(), reachable);
    spans.push_back(update.span);
  }
  std::sort(spans.begin(), spans.end());
  spans.erase(std::unique(spans.begin(), spans.end()), spans.end());
  std::erase_if(spans, [&](SpanId span) { return refused[span.index()]; });
  return spans;
}

WaitsIn lower_place(const Choice& choice) {
  for (const WaitsIn place : choice.activation) {
    if (place != WaitsIn::compute) {
      return place;
    }
  }
  if (choice.boundary != WaitsIn::compute) {
    return choice.boundary;
  }
  return choice.gradient != WaitsIn::compute ? choice.gradient : WaitsIn::nvme;
}

std::vector<Choice> base_choices(const Workload& workload,
                                 const Forced& forced,
                                 const std::vector<WaitsIn>& lower) {
  std::vector<Choice> found;
  const std::vector<bool> visits =
      has_stages(workload) ? std::vector<bool>{false, true} : std::vector<bool>{false};
  for (const WaitsIn place : lower) {
    for (const ActivationPolicy policy : policies(workload, forced)) {
      const Choice base = base_choice(workload, forced, policy, place);
      for (const WaitsIn boundary : boundaries(workload, forced, place)) {
        for (const Window window : windows(workload, forced)) {
          for (const std::int32_t group : groups(workload, forced)) {
            for (const bool by_stage : visits) {
              Choice choice = base;
              choice.boundary = boundary;
              choice.window = window;
              choice.group = group;
              choice.by_stage = by_stage;
              found.push_back(std::move(choice));
            }
          }
        }
      }
    }
  }
  return found;
}

}  // namespace parbuckle
