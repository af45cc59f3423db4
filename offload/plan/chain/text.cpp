#include "offload/plan/chain/text.h"

#include <nlohmann/json.hpp>

namespace parbuckle::chain {
namespace {

using Json = nlohmann::json;

Home home_of(const Json& json) {
  if (json.is_null()) {
    return Home::none;
  }
  return json.get<std::string>() == "fast" ? Home::fast : Home::backing;
}

std::vector<std::int32_t> ids(const Json& json) {
  return json.get<std::vector<std::int32_t>>();
}

Problem read_problem(const Json& json) {
  Problem problem;
  problem.id = json.at("id").get<std::string>();
  problem.family = json.at("family").get<std::string>();
  problem.fast_capacity = json.at("fast_capacity").get<std::int64_t>();
  const Json& link = json.at("link");
  problem.link.in_bytes_per_us = link.at("in_bytes_per_us").get<std::int64_t>();
  problem.link.out_bytes_per_us = link.at("out_bytes_per_us").get<std::int64_t>();
  problem.link.latency_us = link.at("latency_us").get<std::int64_t>();
  for (const Json& row : json.at("objects")) {
    problem.objects.push_back({row.at(0).get<std::string>(),
                               row.at(1).get<std::int64_t>(),
                               home_of(row.at(2)),
                               home_of(row.at(3)),
                               row.at(5).get<std::string>()});
  }
  for (const Json& row : json.at("tasks")) {
    problem.tasks.push_back({row.at(0).get<std::string>(),
                             row.at(1).get<std::int64_t>(),
                             ids(row.at(2)),
                             ids(row.at(3)),
                             ids(row.at(4)),
                             row.at(5).get<std::int64_t>()});
  }
  for (const Json& row : json.at("recompute")) {
    problem.recompute.push_back({row.at(0).get<std::int32_t>(),
                                 row.at(1).get<std::int32_t>(),
                                 row.at(2).get<std::int32_t>(),
                                 row.at(3).get<std::int64_t>(),
                                 ids(row.at(4)),
                                 row.at(5).get<std::int64_t>()});
  }
  return problem;
}

Plan read_plan(const Json& json, std::int32_t tasks) {
  Plan plan;
  plan.preplaced = ids(json.at("preplace"));
  plan.at.resize(at(tasks + 1));
  for (const Json& row : json.at("after")) {
    Actions& actions = plan.at.at(at(row.at(0).get<std::int32_t>() + 1));
    actions = {ids(row.at(1)), ids(row.at(2)), ids(row.at(3))};
  }
  return plan;
}

// Ids that point nowhere would be read as memory later.
Status check_ids(const Problem& problem) {
  const auto objects = static_cast<std::int32_t>(problem.objects.size());
  const auto known = [objects](const std::vector<std::int32_t>& list) {
    for (const std::int32_t object : list) {
      if (object < 0 || object >= objects) {
        return false;
      }
    }
    return true;
  };
  for (const Task& task : problem.tasks) {
    if (!known(task.inputs) || !known(task.outputs) || !known(task.updates)) {
      return invalid("chain " + problem.id + ": task " + task.name +
                     " names an object outside 0.." + std::to_string(objects - 1));
    }
  }
  for (const Recompute& it : problem.recompute) {
    const bool tasks_known =
        it.producer >= 0 && it.producer < it.before && it.before < task_count(problem);
    if (!known(it.inputs) || !known({it.object}) || !tasks_known) {
      return invalid("chain " + problem.id +
                     ": a recompute alternative names an unknown object or task");
    }
  }
  if (problem.link.in_bytes_per_us < 1 || problem.link.out_bytes_per_us < 1) {
    return invalid("chain " + problem.id + ": link rates must be at least 1 byte per microsecond");
  }
  return {};
}

}  // namespace

Result<Problem> problem_from_json(std::string_view text) {
  try {
    Problem problem = read_problem(Json::parse(text));
    PARBUCKLE_TRY(check_ids(problem));
    return problem;
  } catch (const std::exception& error) {
    return invalid(std::string("chain problem: ") + error.what());
  }
}

Result<Plan> plan_from_json(std::string_view text, std::int32_t tasks) {
  try {
    return read_plan(Json::parse(text), tasks);
  } catch (const std::exception& error) {
    return invalid(std::string("chain plan: ") + error.what());
  }
}

}  // namespace parbuckle::chain
