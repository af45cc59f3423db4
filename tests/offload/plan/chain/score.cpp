// Our chain planner beside the recorded peer, on all chains or every n-th: a table by family, and the bars it must pass.
// chain_score [every] [offset] [events] [all|chains|small|recompute] [verbose]
#include <cmath>
#include <ctime>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <string>

#include "offload/plan/chain/planner.h"
#include "offload/plan/chain/recompute.h"
#include "tests/offload/plan/chain/cases.h"
#include "tests/support/shared_path.h"

namespace parbuckle::chain {
namespace {

struct Sum {
  std::int64_t chains = 0;
  std::int64_t refused_by_peer = 0;
  std::int64_t unsolved = 0;
  std::int64_t above = 0;
  double log_ratio = 0;
  double worst = 0;
  double seconds = 0;
  double slowest = 0;

  [[nodiscard]] double mean() const {
    return std::exp(log_ratio /
                    static_cast<double>(std::max<std::int64_t>(1, chains - refused_by_peer)));
  }
};

struct Options {
  std::size_t every = 1;
  std::size_t offset = 0;
  SearchLimits limits;
  std::string part = "all";
  bool verbose = false;
};

double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// `reference_us`: the peer's makespan or the optimum; 0 where there is none.
void count(Sum& sum, const Result<Planned>& planned, std::int64_t reference_us, double seconds) {
  ++sum.chains;
  sum.seconds += seconds;
  sum.slowest = std::max(sum.slowest, seconds);
  sum.unsolved += planned.ok() ? 0 : 1;
  if (reference_us == 0 || !planned.ok()) {
    sum.refused_by_peer += 1;
    return;
  }
  const double ratio =
      static_cast<double>(planned->outcome.makespan_us) / static_cast<double>(reference_us);
  sum.log_ratio += std::log(ratio);
  sum.worst = std::max(sum.worst, ratio);
  sum.above += ratio > 1.0 ? 1 : 0;
}

std::string fixed(double value, int digits) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << value;
  return text.str();
}

void print(const std::string& name, const Sum& sum) {
  std::cout << std::left << std::setw(22) << name << std::right << std::setw(4) << sum.chains
            << " chains  mean " << fixed(sum.mean(), 4) << "  worst " << fixed(sum.worst, 4)
            << "  above 1: " << std::setw(3) << sum.above << "  without reference "
            << sum.refused_by_peer << "  unsolved " << sum.unsolved << "  " << fixed(sum.seconds, 1)
            << " s, slowest " << fixed(sum.slowest, 2) << " s" << std::endl;
}

void print_one(const Problem& problem,
               const std::string& mode,
               const Result<Planned>& planned,
               std::int64_t reference_us) {
  std::cout << problem.id << " " << problem.family << " " << mode << " " << problem.tasks.size()
            << " tasks, reference " << reference_us;
  if (planned.ok()) {
    const double ours = static_cast<double>(planned->outcome.makespan_us);
    std::cout << " ours " << planned->outcome.makespan_us << " greedy "
              << planned->start_makespan_us << " bound " << planned->lower_bound_us << " trials "
              << planned->trials << " ratio "
              << fixed(reference_us > 0 ? ours / static_cast<double>(reference_us) : 0, 4)
              << (reference_us > 0 && planned->outcome.makespan_us > reference_us ? " ABOVE" : "");
  }
  std::cout << std::endl;
}

Result<Planned> plan_in_mode(const Problem& problem,
                             Start start,
                             const std::string& mode,
                             const SearchLimits& limits) {
  if (mode != "warm+recompute") {
    return plan_chain(problem, start, limits);
  }
  Result<RecomputePlanned> planned = plan_chain_with_recompute(problem, start, limits);
  if (!planned.ok()) {
    return planned.status();
  }
  return std::move(planned->planned);
}

// `mode`: as in the recorded results; "warm+recompute" lets our planner recompute as well.
Sum score_chains(const Options& options, const std::string& mode) {
  const Start start = mode == "cold" ? Start::cold : Start::warm;
  std::map<std::string, std::int64_t> peer;
  for (const nlohmann::json& row : json_lines(shared_file("planner_cases/chains_results.jsonl"))) {
    if (row.value("mode", "") == mode && row.value("feasible", false)) {
      peer[row.at("chain")] = row.at("makespan_us");
    }
  }
  std::map<std::string, Sum> families;
  Sum all;
  const std::vector<Problem> problems = read_chains(shared_file("planner_cases/chains.jsonl"));
  for (std::size_t i = options.offset; i < problems.size(); i += options.every) {
    const double begin = processor_seconds();
    const Result<Planned> planned = plan_in_mode(problems[i], start, mode, options.limits);
    const double seconds = processor_seconds() - begin;
    const auto found = peer.find(problems[i].id);
    const std::int64_t reference = found == peer.end() ? 0 : found->second;
    count(families[problems[i].family], planned, reference, seconds);
    count(all, planned, reference, seconds);
    if (options.verbose) {
      print_one(problems[i], mode, planned, reference);
    }
  }
  for (const auto& [family, sum] : families) {
    print(mode + " " + family, sum);
  }
  print(mode + " all", all);
  return all;
}

struct Small {
  Sum sum;
  std::int64_t optimal = 0;
};

Small score_small(const Options& options) {
  Small small;
  std::size_t index = 0;
  for (const nlohmann::json& row : json_lines(shared_file("planner_cases/small_optima.jsonl"))) {
    if (index++ % options.every != options.offset) {
      continue;
    }
    const Problem problem = problem_from_json(row.at("instance").dump()).value();
    for (const nlohmann::json& result : row.at("results")) {
      const std::string mode = result.at("mode");
      const double begin = processor_seconds();
      const Result<Planned> planned =
          plan_chain(problem, mode == "warm" ? Start::warm : Start::cold, options.limits);
      const std::int64_t optimum = result.at("optimum_us");
      count(small.sum, planned, optimum, processor_seconds() - begin);
      small.optimal += planned.ok() && planned->outcome.makespan_us == optimum ? 1 : 0;
      if (options.verbose) {
        print_one(problem, mode, planned, optimum);
      }
    }
  }
  print("small, to the optimum", small.sum);
  std::cout << "optimal in " << small.optimal << " of " << small.sum.chains << "\n";
  return small;
}

bool passes(const Sum& sum) {
  return sum.unsolved == 0 && sum.above == 0 && sum.mean() <= 0.97;
}

int run(const Options& options) {
  if (shared_file("planner_cases/chains.jsonl").empty()) {
    std::cout << "reference data 'planner_cases' is absent: set PARBUCKLE_SHARED\n";
    return 77;
  }
  const Small small =
      options.part == "chains" || options.part == "recompute" ? Small() : score_small(options);
  if (options.part == "small") {
    return 0;
  }
  if (options.part == "recompute") {
    score_chains(options, "warm+recompute");
    return 0;
  }
  const Sum warm = score_chains(options, "warm");
  const Sum cold = score_chains(options, "cold");
  const bool small_passes = 10 * small.optimal >= 9 * small.sum.chains && small.sum.worst <= 1.03;
  const auto word = [](bool good) { return good ? "pass" : "FAIL"; };
  std::cout << "bars: small " << word(small_passes) << ", warm " << word(passes(warm)) << ", cold "
            << word(passes(cold)) << "\n";
  return small_passes && passes(warm) && passes(cold) ? 0 : 1;
}

}  // namespace
}  // namespace parbuckle::chain

int main(int argc, char** argv) {
  parbuckle::chain::Options options;
  options.every = argc > 1 ? std::stoul(argv[1]) : 1;
  options.offset = argc > 2 ? std::stoul(argv[2]) : 0;
  options.limits.events = argc > 3 ? std::stol(argv[3]) : options.limits.events;
  options.part = argc > 4 ? argv[4] : options.part;
  options.verbose = argc > 5;
  return parbuckle::chain::run(options);
}
