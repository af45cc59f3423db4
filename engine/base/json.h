// The plain-data types as JSON text, both ways. Reading refuses unknown enum words, missing keys and wrong types with
// the path of the value ("plan.tasks[3].kind"); unknown keys are refused too.
#pragma once

#include <string>
#include <string_view>

#include "parbuckle/status.h"

#include "engine/base/graph.h"
#include "engine/base/hardware.h"
#include "engine/base/plan.h"
#include "engine/base/program.h"
#include "engine/base/workload.h"

namespace parbuckle {

std::string to_json(const Graph& value);
std::string to_json(const Program& value);
std::string to_json(const Workload& value);
std::string to_json(const Hardware& value);
std::string to_json(const Budgets& value);
std::string to_json(const Plan& value);
std::string to_json(const StepTrace& value);

Result<Graph> graph_from_json(std::string_view text);
Result<Program> program_from_json(std::string_view text);
Result<Workload> workload_from_json(std::string_view text);
Result<Hardware> hardware_from_json(std::string_view text);
Result<Budgets> budgets_from_json(std::string_view text);
Result<Plan> plan_from_json(std::string_view text);
Result<StepTrace> step_trace_from_json(std::string_view text);

}  // namespace parbuckle
