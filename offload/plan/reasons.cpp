#include "offload/plan/reasons.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "parbuckle/units.h"

#include "offload/plan/candidates.h"

namespace parbuckle {
namespace {

std::vector<std::pair<std::string, std::string>> answers(const Workload& workload,
                                                         const Plan& plan) {
  const Choice& c = plan.choice;
  std::string policies = policy_name(workload, c);
  // One policy for all units is an alternative; the many mixtures share a name.
  if (policies.find(',') != std::string::npos) {
    policies = "a mixture";
  }
  std::vector<std::pair<std::string, std::string>> found{{"order", order_name(workload, c)}};
  if (workload.phase == Phase::train) {
    found.emplace_back("optimizer window", std::string(to_string(c.window)));
    if (plan.device_arena_bytes > 0) {
      const bool mixed = !c.host_updates.empty() && c.host_updates != host_updatable(workload);
      found.emplace_back("optimizer", mixed ? "a mixture of places" : optimizer_name(workload, c));
    }
    found.emplace_back("activations", policies);
    found.emplace_back("boundaries", place_name(c.boundary));
    if (has_stages(workload)) {
      found.emplace_back("output layer", stages_name(c));
    }
  }
  return found;
}

std::int64_t resident_of(const Plan& plan, Role role) {
  for (const RoleBytes& bytes : plan.bytes) {
    if (bytes.role == role) {
      return bytes.resident;
    }
  }
  return 0;
}

}  // namespace

std::string place_name(WaitsIn place) {
  switch (place) {
    case WaitsIn::compute:
      return "in memory";
    case WaitsIn::host:
      return "in host memory";
    case WaitsIn::nvme:
      return "on the drive";
  }
  return "";
}

std::string stages_name(const Choice& choice) {
  return choice.by_stage ? "part by part, its table read twice"
                         : "in memory from its loss to its gradient";
}

std::string order_name(const Workload& workload, const Choice& choice) {
  if (workload.micro_batches == 1) {
    return "one micro-batch";
  }
  if (choice.group == 1) {
    return "micro-batch-major";
  }
  if (choice.group >= workload.micro_batches) {
    return "layer-major";
  }
  return "groups of " + std::to_string(choice.group) + " micro-batches";
}

std::string optimizer_name(const Workload& workload, const Choice& choice) {
  if (choice.host_updates.empty()) {
    return "on the device";
  }
  std::set<SpanId> weights;
  for (const Update& update : workload.updates) {
    weights.insert(update.span);
  }
  return choice.host_updates.size() == weights.size()
             ? "on cpu"
             : "on cpu for " + std::to_string(choice.host_updates.size()) + " of " +
                   std::to_string(weights.size()) + " weights";
}

std::string policy_name(const Workload& workload, const Choice& choice) {
  std::map<ActivationPolicy, int> units;
  for (std::size_t u = 0; u < workload.units.size(); ++u) {
    if (const std::optional<ActivationPolicy> policy = policy_of(workload, u, choice)) {
      ++units[*policy];
    }
  }
  std::string text;
  for (const auto& [policy, count] : units) {
    text +=
        (text.empty() ? "" : ", ") + std::string(to_string(policy)) + " " + std::to_string(count);
  }
  return text.empty() ? "nothing saved" : text;
}

void Alternatives::note(const Workload& workload, const Plan& plan) {
  for (const auto& [question, answer] : answers(workload, plan)) {
    const auto [at, fresh] = best_[question].try_emplace(answer, plan.predicted.step_s);
    at->second = std::min(at->second, plan.predicted.step_s);
  }
}

std::vector<std::string> Alternatives::reasons(const Workload& workload, const Plan& chosen) const {
  std::vector<std::string> lines;
  for (const auto& [question, answer] : answers(workload, chosen)) {
    std::string line =
        question + ": " + (answer == "a mixture" ? policy_name(workload, chosen.choice) : answer);
    line += ", step " + format_seconds(chosen.predicted.step_s);
    const auto others = best_.find(question);
    if (others != best_.end()) {
      for (const auto& [other, seconds] : others->second) {
        line += other == answer ? "" : "; " + other + " " + format_seconds(seconds);
      }
    }
    lines.push_back(std::move(line));
  }
  if (chosen.transfers.empty()) {
    lines.emplace_back("everything fits in memory: nothing moves");
    return lines;
  }
  std::string pins = "in memory always:";
  for (const Role role : {Role::gradient,
                          Role::sparse_gradient,
                          Role::weight,
                          Role::frozen_weight,
                          Role::moment1,
                          Role::moment2}) {
    if (const std::int64_t bytes = resident_of(chosen, role); bytes > 0) {
      pins += " " + std::string(to_string(role)) + " " + format_size(bytes);
    }
  }
  lines.push_back(pins == "in memory always:" ? "in memory always: no weights, moments or gradients"
                                              : pins);
  return lines;
}

}  // namespace parbuckle
