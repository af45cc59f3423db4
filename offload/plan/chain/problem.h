// The chain problem: tasks in a fixed order on one compute lane, objects that live in a bounded fast tier or in an
// unbounded backing tier, one lane between the tiers each way. A plan says what leaves and comes at which task's end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace parbuckle::chain {

enum class Home : std::uint8_t { none, backing, fast };

struct Object {
  std::string name;
  std::int64_t bytes = 0;
  Home initial = Home::none;  // none: a task produces it
  Home final = Home::none;    // where the newest bytes must be at the end; none: disposable
  std::string role;
};

struct Task {
  std::string name;
  std::int64_t duration_us = 0;
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> outputs;
  std::vector<std::int32_t> updates;  // a subset of inputs, changed in place
  std::int64_t workspace_bytes = 0;
};

/// An alternative: `producer` no longer outputs `object`; a task that does stands directly before task `before`.
struct Recompute {
  std::int32_t object = 0;
  std::int32_t producer = 0;
  std::int32_t before = 0;
  std::int64_t duration_us = 0;
  std::vector<std::int32_t> inputs;
  std::int64_t workspace_bytes = 0;
};

struct Link {
  std::int64_t in_bytes_per_us = 1;
  std::int64_t out_bytes_per_us = 1;
  std::int64_t latency_us = 0;  // of every transfer
};

struct Problem {
  std::string id;
  std::string family;
  std::int64_t fast_capacity = 0;
  Link link;
  std::vector<Object> objects;
  std::vector<Task> tasks;
  std::vector<Recompute> recompute;
};

/// What happens at one position, in this order: releases, then offloads are queued, then prefetches are queued.
struct Actions {
  std::vector<std::int32_t> release;
  std::vector<std::int32_t> offload;
  std::vector<std::int32_t> prefetch;

  friend bool operator==(const Actions&, const Actions&) = default;
};

struct Plan {
  std::vector<std::int32_t>
      preplaced;            // objects with an additional fast copy at t = 0 (warm start only)
  std::vector<Actions> at;  // [0]: at t = 0 (cold start only); [k + 1]: at the end of task k

  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Warm: anything may be preplaced, no action before the end of task 0. Cold: nothing is, prefetches may start at t = 0.
enum class Start : std::uint8_t { warm, cold };

inline std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

inline std::int32_t task_count(const Problem& problem) {
  return static_cast<std::int32_t>(problem.tasks.size());
}

inline std::int64_t in_us(const Problem& problem, std::int64_t bytes) {
  const std::int64_t rate = problem.link.in_bytes_per_us;
  return (bytes > rate ? (bytes + rate - 1) / rate : 1) + problem.link.latency_us;
}

inline std::int64_t out_us(const Problem& problem, std::int64_t bytes) {
  const std::int64_t rate = problem.link.out_bytes_per_us;
  return (bytes > rate ? (bytes + rate - 1) / rate : 1) + problem.link.latency_us;
}

/// The problem with the alternatives `chosen` (ascending indices into `recompute`) taken; it offers none itself.
Problem with_recompute(const Problem& problem, const std::vector<std::int32_t>& chosen);

/// A time no plan without recompute can beat: all durations, the loads before a task and the rest after it, the work up
/// to the last change of objects and their write-back after it.
std::int64_t lower_bound_us(const Problem& problem, Start start);

}  // namespace parbuckle::chain
