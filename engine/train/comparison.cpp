#include "engine/train/comparison.h"

#include <cstddef>
#include <numeric>
#include <utility>

namespace parbuckle {
namespace {

/// The roles of either list that move something.
std::vector<RoleTraffic> traffic_of(const std::vector<RoleBytes>& measured,
                                    const std::vector<RoleBytes>& planned) {
  std::vector<RoleTraffic> all(role_count);
  for (const RoleBytes& bytes : measured) {
    RoleTraffic& traffic = all[static_cast<std::size_t>(bytes.role)];
    traffic.read = bytes.read;
    traffic.written = bytes.written;
  }
  for (const RoleBytes& bytes : planned) {
    RoleTraffic& traffic = all[static_cast<std::size_t>(bytes.role)];
    traffic.planned_read = bytes.read;
    traffic.planned_written = bytes.written;
  }
  std::vector<RoleTraffic> found;
  for (std::size_t role = 0; role < all.size(); ++role) {
    RoleTraffic& traffic = all[role];
    if (traffic.read + traffic.written + traffic.planned_read + traffic.planned_written > 0) {
      traffic.role = to_string(static_cast<Role>(role));
      found.push_back(std::move(traffic));
    }
  }
  return found;
}

}  // namespace

std::int64_t sum_over_roles(const std::vector<RoleBytes>& bytes, std::int64_t RoleBytes::*member) {
  return std::accumulate(
      bytes.begin(),
      bytes.end(),
      std::int64_t{0},
      [member](std::int64_t sum, const RoleBytes& row) { return sum + row.*member; });
}

Status compare_with_plan(const Planned& planned,
                         const Hardware& hardware,
                         const StepFacts& facts,
                         const StepTrace& trace,
                         StepRecord& record) {
  PARBUCKLE_ASSIGN(const StepForecast forecast,
                   forecast_step(planned.lowered.workload, planned.plan, hardware, facts));
  record.predicted_step_seconds = forecast.step_s;
  record.nvme_read_bytes = sum_over_roles(trace.bytes, &RoleBytes::read);
  record.nvme_written_bytes = sum_over_roles(trace.bytes, &RoleBytes::written);
  record.planned_nvme_read_bytes = sum_over_roles(forecast.bytes, &RoleBytes::read);
  record.planned_nvme_written_bytes = sum_over_roles(forecast.bytes, &RoleBytes::written);
  record.arena_peak_bytes = trace.arena_peak_bytes;
  record.traffic = traffic_of(trace.bytes, forecast.bytes);
  return {};
}

}  // namespace parbuckle
