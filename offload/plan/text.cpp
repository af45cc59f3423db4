#include "offload/plan/text.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>

#include "parbuckle/units.h"

#include "offload/plan/candidates.h"

namespace parbuckle {
namespace {

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size() + 1), ' ');
  return text;
}

/// A row of the table by role: the name, then four sizes.
std::string table_row(const std::string& name, const std::array<std::string, 4>& cells) {
  std::string text = padded(name, 18);
  for (const std::string& cell : cells) {
    text += padded(cell, 14);
  }
  return text + "\n";
}

/// "host memory       480 MiB": what every line of the head looks like.
std::string line(const std::string& name, const std::string& value) {
  return padded(name, 18) + value + "\n";
}

std::string policies(const Workload& workload, const Choice& choice) {
  std::map<std::string, int> units;
  for (std::size_t u = 0; u < workload.units.size(); ++u) {
    if (const auto policy = policy_of(workload, u, choice)) {
      ++units[std::string(to_string(*policy))];
    }
  }
  std::string text;
  for (const auto& [policy, count] : units) {
    text += (text.empty() ? "" : ", ") + policy + " in " + std::to_string(count) + " units";
  }
  return text.empty() ? "none saved" : text;
}

std::string place_name(ActivationPlace place) {
  return place == ActivationPlace::host ? "host" : "nvme";
}

std::string size_or_dash(std::int64_t bytes) {
  return bytes == 0 ? "-" : format_size(bytes);
}

std::string role_row(const std::string& name, const RoleBytes& r) {
  return table_row(name,
                   {size_or_dash(r.resident),
                    size_or_dash(r.stored),
                    size_or_dash(r.read),
                    size_or_dash(r.written)});
}

std::string memory_table(const Plan& plan) {
  std::string text = table_row("role", {"resident", "on nvme", "read/step", "written/step"});
  RoleBytes sum;
  for (const RoleBytes& r : plan.bytes) {
    text += role_row(std::string(to_string(r.role)), r);
    sum.resident += r.resident;
    sum.stored += r.stored;
    sum.read += r.read;
    sum.written += r.written;
  }
  return text + role_row("all", sum);
}

std::int64_t written_per_step(const Plan& plan) {
  std::int64_t bytes = 0;
  for (const RoleBytes& r : plan.bytes) {
    bytes += r.written;
  }
  return bytes;
}

}  // namespace

std::string order_name(const Workload& workload, const Choice& choice) {
  if (choice.group == workload.micro_batches) {
    return "layer-major";
  }
  return choice.group == 1 ? "micro-batch-major"
                           : std::to_string(choice.group) + " micro-batches per visit";
}

std::string to_text(const Workload& workload, const Plan& plan, std::int64_t steps) {
  const Choice& choice = plan.choice;
  const std::int64_t reserve = plan.budgets.host_reserve_bytes;
  std::string text = "plan for " + plan.workload + "\n";
  text += line("host memory",
               format_size(plan.host_arena_bytes + reserve) + " = arena " +
                   format_size(plan.host_arena_bytes) + " + reserve " + format_size(reserve) +
                   " (libraries, stacks, tokenizer)");
  if (plan.budgets.host_bytes >= 0) {
    text += line("budget",
                 format_size(plan.budgets.host_bytes) + "; the smallest that works is " +
                     std::to_string(plan.smallest_host_bytes / mib) + "MiB");
  }
  text += line("nvme", size_or_dash(plan.nvme_pool_bytes) + " on disk");
  text += line("order", order_name(workload, choice));
  text += line("optimizer window",
               std::string(to_string(choice.window)) + (workload.clipping ? " (clipping on)" : ""));
  text += line("activations",
               policies(workload, choice) + "; boundaries on " + place_name(choice.boundary));
  text += line("gradients", place_name(choice.gradient));
  text += "\n" + memory_table(plan) + "\n";
  text +=
      line("predicted step",
           format_seconds(plan.predicted.step_s) + "; no schedule of these bytes is faster than " +
               format_seconds(plan.bound.step_s) + " (" + plan.bound.limited_by + ")");
  text += line("whole run",
               std::to_string(steps) + " steps, " +
                   format_seconds(plan.predicted.step_s * static_cast<double>(steps)) + ", " +
                   size_or_dash(written_per_step(plan) * steps) + " written to the drive");
  for (const std::string& reason : plan.reasons) {
    text += line("because", reason);
  }
  return text;
}

}  // namespace parbuckle
