#include "offload/plan/planner.h"

#include <chrono>
#include <iostream>

#include <gtest/gtest.h>

#include "parbuckle/units.h"

#include "offload/plan/validate.h"
#include "tests/offload/plan/draft.h"
#include "tests/support/workload_generator.h"

namespace parbuckle {
namespace {

Budgets host(std::int64_t bytes, std::int64_t reserve) {
  Budgets b;
  b.host_bytes = bytes;
  b.host_reserve_bytes = reserve;
  return b;
}

TEST(Planner, SmolLM2) {
  const Workload workload = make_workload(smollm2_135m(4, 256));
  for (const std::int64_t budget : {0, 480, 700, 1000, 1600, 3000, -1}) {
    const auto begin = std::chrono::steady_clock::now();
    Budgets b = host(budget < 0 ? -1 : budget * mib, 100 * mib);
    if (budget == 0) {
      b.host_bytes = smallest_host_bytes(workload, small_machine(), b).value();
    }
    const Result<Plan> made = plan(workload, small_machine(), b);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ(joined(validate(workload, *made)), "");
    std::cout << "budget " << b.host_bytes / mib << " smallest " << made->smallest_host_bytes / mib
              << " planned in " << took.count() << " s, arena " << made->host_arena_bytes / mib
              << " step " << made->predicted.step_s << " bound " << made->bound.step_s << " "
              << made->bound.limited_by << " compute " << made->bound.compute_s << " read "
              << made->bound.read_s << " write " << made->bound.write_s << " duplex "
              << made->bound.duplex_s << " prefetch " << made->choice.prefetch << " tasks "
              << made->tasks.size() << " transfers " << made->transfers.size() << "\n"
              << joined(made->reasons);
    for (const RoleBytes& r : made->bytes) {
      std::cout << "   " << to_string(r.role) << " r " << r.read / mib << " w " << r.written / mib
                << " resident " << r.resident / mib << " stored " << r.stored / mib << "\n";
    }
  }
}

}  // namespace
}  // namespace parbuckle
