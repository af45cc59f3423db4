// Why a plan was chosen: the best of what was tried otherwise, in words.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/base/plan.h"
#include "engine/base/workload.h"

namespace parbuckle {

/// "in memory", "in host memory", "on the drive".
std::string place_name(WaitsIn place);

/// "layer-major", "micro-batch-major", "groups of 2 micro-batches".
std::string order_name(const Workload& workload, const Choice& choice);
/// How an output layer of several stages uses memory.
std::string stages_name(const Choice& choice);

/// "on the device", "on cpu", "on cpu for 12 of 60 weights".
std::string optimizer_name(const Workload& workload, const Choice& choice);

/// "keep 40, spill 20": units that save something, by policy.
std::string policy_name(const Workload& workload, const Choice& choice);

/// Shortest predicted step of everything tried, by order, window, activation policy and boundary place.
class Alternatives {
 public:
  void note(const Workload& workload, const Plan& plan);
  [[nodiscard]] std::vector<std::string> reasons(const Workload& workload,
                                                 const Plan& chosen) const;

 private:
  std::map<std::string, std::map<std::string, double>> best_;  // question -> answer -> seconds
};

}  // namespace parbuckle
