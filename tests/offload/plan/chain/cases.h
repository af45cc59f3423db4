// Reads the planner cases: chains, what a published planner reached on them, small ones with a proven optimum.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "offload/plan/chain/text.h"

namespace parbuckle::chain {

inline std::vector<nlohmann::json> json_lines(const std::filesystem::path& path) {
  std::vector<nlohmann::json> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    rows.push_back(nlohmann::json::parse(line));
  }
  return rows;
}

inline std::vector<Problem> read_chains(const std::filesystem::path& path) {
  std::vector<Problem> problems;
  for (const nlohmann::json& row : json_lines(path)) {
    problems.push_back(std::move(problem_from_json(row.dump())).value());
  }
  return problems;
}

/// Indices of the alternatives that produce the named objects (a row's "recomputed"), ascending.
inline std::vector<std::int32_t> alternatives_of(const Problem& problem,
                                                 const nlohmann::json& objects) {
  std::vector<std::int32_t> chosen;
  for (std::size_t i = 0; i < problem.recompute.size(); ++i) {
    for (const nlohmann::json& object : objects) {
      const bool same =
          object.is_string()
              ? object.get<std::string>() == problem.objects[at(problem.recompute[i].object)].name
              : object.get<std::int32_t>() == problem.recompute[i].object;
      if (same) {
        chosen.push_back(static_cast<std::int32_t>(i));
      }
    }
  }
  return chosen;
}

}  // namespace parbuckle::chain
