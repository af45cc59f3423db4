#include "offload/plan/passive.h"

#include <array>

#include <gtest/gtest.h>

#include "parbuckle/units.h"

#include "offload/plan/planner.h"
#include "offload/plan/validate.h"
#include "tests/offload/plan/draft.h"
#include "tests/support/workload_generator.h"

namespace parbuckle {
namespace {

// Allocations of `plan` that are not in `around` at the same place overlap nothing that `around` holds for good.
void expect_untouched(const Workload& workload, const Plan& plan, const Surroundings& around) {
  for (const Allocation& held : around.plan->allocations) {
    const bool gradient = held.role == Role::gradient || held.role == Role::sparse_gradient;
    if (!held.resident || gradient) {
      continue;
    }
    for (const Allocation& a : plan.allocations) {
      const bool same = a.offset == held.offset && a.what == held.what &&
                        a.micro_batch == held.micro_batch && a.span.valid() &&
                        workload.spans[a.span.index()].name == held.what;
      EXPECT_TRUE(same || a.offset + a.bytes <= held.offset || held.offset + held.bytes <= a.offset)
          << a.what << " lies on " << held.what;
    }
  }
}

TEST(Passive, EvaluatesInTheArenaOfTraining) {
  TransformerSizes sizes = smollm2_135m(4, 256);
  const Workload training = make_workload(sizes);
  sizes.phase = Phase::eval;
  sizes.micro_batches = 1;
  const Workload evaluation = make_workload(sizes);
  for (const std::int64_t budget : {370, 480, 1000, 1600, 4000}) {
    Budgets b;
    b.host_bytes = budget * mib;
    b.host_reserve_bytes = 100 * mib;
    const Plan trained = plan(training, small_machine(), b).value();
    const Surroundings around{&training, &trained};
    const Result<Plan> made = plan_passive(evaluation, small_machine(), around);
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ(joined(validate(evaluation, *made)), "");
    EXPECT_LE(made->host_arena_bytes, trained.host_arena_bytes);
    expect_untouched(evaluation, *made, around);
    std::size_t shared = 0;
    for (const Home& home : made->homes) {
      shared += home.tier == Tier::host ? 1U : 0U;
    }
    EXPECT_EQ(shared == made->homes.size(), budget >= 1600)
        << budget;  // all weights stay from there on
  }
}

TEST(Passive, SaysWhatIsMissing) {
  TransformerSizes sizes;
  const Workload training = make_workload(sizes);
  const Plan trained = plan(training, small_machine(), Budgets()).value();
  const Surroundings around{&training, &trained};
  sizes.phase = Phase::eval;
  sizes.rows = 64 * 64;
  EXPECT_EQ(plan_passive(make_workload(sizes), small_machine(), around).status().code(),
            Code::resource_exhausted);
  sizes.width = 128;
  sizes.rows = 64;
  EXPECT_EQ(plan_passive(make_workload(sizes), small_machine(), around).status().code(),
            Code::invalid_argument);
}

TEST(Passive, FitsAroundSeveralPlans) {
  TransformerSizes sizes;
  sizes.layers = 3;
  const Workload training = make_workload(sizes);
  const Plan trained = plan(training, small_machine(), Budgets()).value();
  sizes.phase = Phase::prefill;
  const Workload prefill = make_workload(sizes);
  const Plan prefilled =
      plan_passive(prefill, small_machine(), Surroundings{&training, &trained}).value();
  sizes.phase = Phase::decode;
  sizes.rows = 1;
  const Workload decode = make_workload(sizes);
  const std::array<Surroundings, 2> both{{{&training, &trained}, {&prefill, &prefilled}}};
  const Plan decoded = plan_passive(decode, small_machine(), both).value();
  EXPECT_EQ(joined(validate(decode, decoded)), "");
  expect_untouched(decode, decoded, both[0]);
  expect_untouched(decode, decoded, both[1]);
}

}  // namespace
}  // namespace parbuckle
