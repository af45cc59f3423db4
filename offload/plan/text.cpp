#include "offload/plan/text.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "parbuckle/units.h"

#include "offload/plan/candidates.h"
#include "offload/plan/reasons.h"

namespace parbuckle {
namespace {

std::string padded(const std::string& text, std::size_t width, bool right = false) {
  const std::string space(text.size() < width ? width - text.size() : 0, ' ');
  return right ? space + text : text + space;
}

std::string size_cell(std::int64_t bytes) {
  return padded(bytes == 0 ? "-" : format_size(bytes), 11, true);
}

std::string line(const std::string& name, const std::string& value) {
  return padded(name, 12) + value + "\n";
}

std::string choices(const Workload& workload, const Plan& plan) {
  const Choice& c = plan.choice;
  std::string text = line("workload",
                          plan.workload + ", " + std::string(to_string(plan.phase)) + ", " +
                              std::to_string(workload.micro_batches) + " micro-batches of up to " +
                              std::to_string(workload.shapes.back().rows) + " tokens");
  text += line("order", order_name(workload, c));
  if (plan.phase == Phase::train) {
    text += line("window",
                 std::string(to_string(c.window)) +
                     (workload.clipping ? ", gradients clipped" : ", no clipping"));
    if (plan.device_arena_bytes > 0) {
      text += line("optimizer", optimizer_name(workload, c));
    }
    text +=
        line("activations", policy_name(workload, c) + "; boundaries " + place_name(c.boundary));
    if (has_stages(workload)) {
      text += line("output", stages_name(c));
    }
  }
  text += line("prefetch", std::to_string(c.prefetch) + " visits ahead");
  return text;
}

// A column of the table by role. Those of a device's link and of the host beside it are shown for plans with a device.
struct Column {
  std::string_view name;
  std::int64_t RoleBytes::*bytes;
};

std::vector<Column> columns(bool device) {
  if (!device) {
    return {{"in memory", &RoleBytes::resident},
            {"on drive", &RoleBytes::stored},
            {"read/step", &RoleBytes::read},
            {"write/step", &RoleBytes::written}};
  }
  return {{"on device", &RoleBytes::resident},
          {"in host", &RoleBytes::hosted},
          {"on drive", &RoleBytes::stored},
          {"down/step", &RoleBytes::down},
          {"up/step", &RoleBytes::up},
          {"read/step", &RoleBytes::read},
          {"write/step", &RoleBytes::written}};
}

std::string by_role(const Plan& plan) {
  const std::vector<Column> shown = columns(plan.device_arena_bytes > 0);
  std::string text = padded("role", 20);
  std::string all = padded("all", 20);
  for (const Column& column : shown) {
    text += padded(std::string(column.name), 11, true);
    std::int64_t sum = 0;
    for (const RoleBytes& r : plan.bytes) {
      sum += r.*column.bytes;
    }
    all += size_cell(sum);
  }
  text += "\n";
  for (const RoleBytes& r : plan.bytes) {
    text += padded(std::string(to_string(r.role)), 20);
    for (const Column& column : shown) {
      text += size_cell(r.*column.bytes);
    }
    text += "\n";
  }
  return text + all + "\n";
}

std::string memory(const Plan& plan) {
  const Budgets& b = plan.budgets;
  std::string text;
  if (plan.device_arena_bytes > 0) {
    text += line("device",
                 format_size(plan.device_arena_bytes) + " arena of " +
                     (b.device_bytes < 0 ? "no limit" : format_size(b.device_bytes)));
  }
  text +=
      line("host",
           format_size(plan.host_arena_bytes) + " arena + " + format_size(b.host_reserve_bytes) +
               " reserve of " + (b.host_bytes < 0 ? "no limit" : format_size(b.host_bytes)));
  text += line("nvme",
               format_size(plan.nvme_pool_bytes) + " pool of " +
                   (b.nvme_bytes < 0 ? "no limit" : format_size(b.nvme_bytes)));
  if (plan.smallest_host_bytes > 0) {
    text +=
        line("smallest", "--host-memory " + std::to_string(plan.smallest_host_bytes / mib) + "MiB");
  }
  return text;
}

std::string times(const Plan& plan) {
  const Bound& b = plan.bound;
  std::array<char, 16> percent{};
  const double over = b.step_s > 0 ? 100 * (plan.predicted.step_s / b.step_s - 1) : 0;
  std::snprintf(percent.data(), percent.size(), "%.1f", over);
  return line("step",
              format_seconds(plan.predicted.step_s) + " predicted, bound " +
                  format_seconds(b.step_s) + " (" + percent.data() + " % above it), limited by " +
                  b.limited_by) +
         line("bound",
              "compute " + format_seconds(b.compute_s) + ", read " + format_seconds(b.read_s) +
                  ", write " + format_seconds(b.write_s) + ", both " + format_seconds(b.duplex_s) +
                  (b.host_s > 0 ? ", cpu " + format_seconds(b.host_s) : "") +
                  (plan.device_arena_bytes > 0 ? ", to device " + format_seconds(b.down_s) +
                                                     ", from device " + format_seconds(b.up_s)
                                               : ""));
}

// What becomes of a unit's weights, moments, gradients and activations, in a few words.
class UnitRows {
 public:
  UnitRows(const Workload& workload, const Plan& plan)
      : workload_(workload), plan_(plan), moves_(workload.spans.size(), false) {
    for (const Transfer& t : plan.transfers) {
      moves_[workload.blocks[t.block.index()].span.index()] = true;
    }
  }

  // One line for all units that are treated alike, in the order of their first.
  [[nodiscard]] std::string text() const {
    std::vector<std::pair<std::string, std::vector<std::size_t>>> rows;
    for (std::size_t u = 0; u < workload_.units.size(); ++u) {
      const std::string treated = row(u);
      auto found = std::find_if(
          rows.begin(), rows.end(), [&](const auto& known) { return known.first == treated; });
      if (found == rows.end()) {
        found = rows.insert(rows.end(), {treated, {}});
      }
      found->second.push_back(u);
    }
    std::string all = padded("units", 36) + "weights   moments   gradients activations\n";
    for (const auto& [treated, units] : rows) {
      std::string name = workload_.units[units.front()].name;
      if (units.size() > 1) {
        name = std::to_string(units.size()) + " from " + name;
      }
      all += padded(name, 36) + treated + "\n";
    }
    return all;
  }

 private:
  [[nodiscard]] std::string row(std::size_t unit) const {
    std::array<std::pair<int, int>, 3>
        held{};  // weights, moments, gradients: spans, of which never leave
    for (const SpanId span : spans_of(unit)) {
      const Role role = workload_.blocks[workload_.spans[span.index()].blocks.front().index()].role;
      const int column = column_of(role);
      if (column >= 0) {
        ++held[static_cast<std::size_t>(column)].first;
        held[static_cast<std::size_t>(column)].second += moves_[span.index()] ? 0 : 1;
      }
    }
    std::string text;
    for (const auto& [all, in_memory] : held) {
      const char* const word = all == 0           ? "-"
                               : in_memory == 0   ? "stream"
                               : in_memory == all ? "memory"
                                                  : "mixed";
      text += padded(word, 10);
    }
    const std::optional<ActivationPolicy> policy = policy_of(workload_, unit, plan_.choice);
    return text + (policy ? std::string(to_string(*policy)) : "-");
  }

  static int column_of(Role role) {
    switch (role) {
      case Role::weight:
      case Role::frozen_weight:
        return 0;
      case Role::moment1:
      case Role::moment2:
        return 1;
      case Role::gradient:
      case Role::sparse_gradient:
        return 2;
      case Role::quantisation_scale:
      case Role::master_low:
      case Role::activation:
      case Role::boundary:
      case Role::stream:
      case Role::batch:
      case Role::kv_cache:
      case Role::statistic:
      case Role::scratch:
        return -1;
    }
    return -1;
  }

  // Spans that the unit's tasks use, and those that updates of its weights use.
  [[nodiscard]] std::vector<SpanId> spans_of(std::size_t unit) const {
    std::vector<SpanId> spans;
    const auto note = [&](const TaskTemplate& t) {
      for (const Use& use : t.uses) {
        spans.push_back(use.span);
      }
    };
    const Alternative& chosen =
        workload_.units[unit]
            .alternatives[static_cast<std::size_t>(plan_.choice.alternative[unit])];
    std::for_each(chosen.forward.begin(), chosen.forward.end(), note);
    std::for_each(chosen.backward.begin(), chosen.backward.end(), note);
    std::sort(spans.begin(), spans.end());
    const std::vector<SpanId> weights = spans;
    for (const Update& update : workload_.updates) {
      if (std::binary_search(weights.begin(), weights.end(), update.span)) {
        note(update.task);
      }
    }
    std::sort(spans.begin(), spans.end());
    spans.erase(std::unique(spans.begin(), spans.end()), spans.end());
    return spans;
  }

  const Workload& workload_;
  const Plan& plan_;
  std::vector<bool> moves_;  // per span
};

}  // namespace

std::string plan_text(const Workload& workload, const Plan& plan) {
  std::string text = choices(workload, plan) + memory(plan) + times(plan) + "\n" + by_role(plan) +
                     "\n" + UnitRows(workload, plan).text();
  if (!plan.reasons.empty()) {
    text += "\nwhy\n";
  }
  for (const std::string& reason : plan.reasons) {
    text += "  " + reason + "\n";
  }
  return text;
}

}  // namespace parbuckle
