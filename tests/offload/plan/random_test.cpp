// Random workloads, budgets and forced choices: every plan is sound, inside its budgets, and never faster than its bound.
#include <gtest/gtest.h>

#include "parbuckle/units.h"

#include "offload/plan/bound.h"
#include "offload/plan/planner.h"
#include "offload/plan/simulate.h"
#include "offload/plan/validate.h"
#include "tests/offload/plan/draft.h"
#include "tests/support/workload_generator.h"

namespace parbuckle {
namespace {

template <class T>
std::optional<T> sometimes(std::mt19937& random, std::initializer_list<T> values) {
  if (random() % 2 == 0) {
    return std::nullopt;
  }
  return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
}

Forced random_forced(std::mt19937& random, const Workload& workload) {
  Forced f;
  f.group = sometimes<std::int32_t>(
      random, {1, 1 + (workload.micro_batches - 1) / 2, workload.micro_batches});
  f.window = workload.clipping ? sometimes(random, {Window::after, Window::lazy})
                               : sometimes(random, {Window::after, Window::fused, Window::lazy});
  f.activations = sometimes(
      random, {ActivationPolicy::keep, ActivationPolicy::spill, ActivationPolicy::recompute});
  f.boundary = sometimes(random, {WaitsIn::compute, WaitsIn::nvme});
  f.gradient = sometimes(random, {WaitsIn::compute, WaitsIn::nvme});
  f.prefetch = sometimes<std::int32_t>(random, {0, 1, 3, 20});
  f.pin = random() % 3 != 0;
  return f;
}

TEST(RandomPlans, AreSoundAndInsideTheirBudgets) {
  std::mt19937 random(2026);
  const Hardware machine = small_machine();
  std::size_t moved_bytes_somewhere = 0;
  for (int i = 0; i < 320; ++i) {
    const Workload workload = make_workload(random_sizes(random));
    const Forced forced = random_forced(random, workload);
    Budgets b;
    b.host_reserve_bytes = static_cast<std::int64_t>(random() % 3) * mib;
    b.host_bytes =
        smallest_host_bytes(workload, machine, b, forced).value() +
        static_cast<std::int64_t>(random() % 5) * mib * static_cast<std::int64_t>(random() % 2);
    const Result<Plan> made = plan(workload, machine, b, forced);
    ASSERT_TRUE(made.ok()) << i << ": " << made.status().message();
    ASSERT_EQ(joined(validate(workload, *made)), "") << "plan " << i;
    EXPECT_LE(made->host_arena_bytes + b.host_reserve_bytes, b.host_bytes);
    EXPECT_GE(made->predicted.step_s, made->bound.step_s * (1 - 1e-9)) << "plan " << i;
    const FamilySeconds seconds = family_seconds(workload, machine).value();
    EXPECT_GE(made->predicted.step_s,
              bound_of_workload(workload, seconds, machine, b).step_s * (1 - 1e-9));
    moved_bytes_somewhere += made->transfers.empty() ? 0U : 1U;
  }
  EXPECT_GT(moved_bytes_somewhere, 100U);
}

Forced random_device_forced(std::mt19937& random, const Workload& workload) {
  Forced f = random_forced(random, workload);
  f.boundary = sometimes(random, {WaitsIn::compute, WaitsIn::host, WaitsIn::nvme});
  f.gradient = sometimes(random, {WaitsIn::compute, WaitsIn::host, WaitsIn::nvme});
  return f;
}

TEST(RandomPlans, OfThreeTiersAreSoundAndInsideTheirBudgets) {
  std::mt19937 random(1201);
  const Hardware machine = device_machine();
  std::size_t all_lanes = 0;
  for (int i = 0; i < 100; ++i) {
    const Workload workload = make_workload(random_sizes(random));
    const Forced forced = random_device_forced(random, workload);
    Budgets b;
    b.device_bytes = smallest_device_bytes(workload, machine, forced).value() +
                     static_cast<std::int64_t>(random() % 3) * mib / 2;
    b.host_reserve_bytes = static_cast<std::int64_t>(random() % 3) * mib;
    b.host_bytes = smallest_host_bytes(workload, machine, b, forced).value() +
                   static_cast<std::int64_t>(random() % 3) * mib;
    const Result<Plan> made = plan(workload, machine, b, forced);
    ASSERT_TRUE(made.ok()) << i << ": " << made.status().message();
    ASSERT_EQ(joined(validate(workload, *made)), "") << "plan " << i;
    EXPECT_GT(made->device_arena_bytes, 0);
    EXPECT_LE(made->device_arena_bytes, b.device_bytes);
    EXPECT_LE(made->host_arena_bytes + b.host_reserve_bytes, b.host_bytes);
    EXPECT_GE(made->predicted.step_s, made->bound.step_s * (1 - 1e-9)) << "plan " << i;
    RoleBytes sum;
    for (const RoleBytes& role : made->bytes) {
      sum.read += role.read;
      sum.written += role.written;
      sum.down += role.down;
      sum.up += role.up;
    }
    EXPECT_GE(sum.down, sum.read) << "what is read from the drive goes to the device";
    EXPECT_GE(sum.up, sum.written);
    all_lanes += sum.read > 0 && sum.written > 0 && sum.down > sum.read ? 1U : 0U;
  }
  EXPECT_GT(all_lanes, 25U) << "plans that use the drive and homes in host memory at once";
}

bool moments_cross(const Plan& plan) {
  return std::any_of(plan.bytes.begin(), plan.bytes.end(), [](const RoleBytes& role) {
    const bool moment = role.role == Role::moment1 || role.role == Role::moment2;
    return moment && (role.down > 0 || role.up > 0 || role.resident > 0);
  });
}

TEST(RandomPlans, WithUpdatesOnTheHostAreSoundAndInsideTheirBudgets) {
  std::mt19937 random(77);
  const Hardware machine = hetero_machine();
  std::size_t from_drive = 0;
  std::size_t mixed = 0;
  for (int i = 0; i < 80; ++i) {
    const Workload workload = make_workload(random_sizes(random));
    Forced forced = random_device_forced(random, workload);
    forced.updates = sometimes(random, {LaneKind::host_compute, LaneKind::compute});
    Budgets b;
    b.device_bytes = smallest_device_bytes(workload, machine, forced).value() +
                     static_cast<std::int64_t>(random() % 3) * mib / 2;
    b.host_bytes = smallest_host_bytes(workload, machine, b, forced).value() +
                   static_cast<std::int64_t>(random() % 3) * mib;
    const Result<Plan> made = plan(workload, machine, b, forced);
    ASSERT_TRUE(made.ok()) << i << ": " << made.status().message();
    ASSERT_EQ(joined(validate(workload, *made)), "") << "plan " << i;
    EXPECT_LE(made->device_arena_bytes, b.device_bytes);
    EXPECT_LE(made->host_arena_bytes, b.host_bytes);
    EXPECT_GE(made->predicted.step_s, made->bound.step_s * (1 - 1e-9)) << "plan " << i;
    if (forced.updates == LaneKind::host_compute) {
      EXPECT_FALSE(moments_cross(*made)) << "plan " << i;
    }
    const std::size_t by_host = made->choice.host_updates.size();
    mixed += by_host > 0 && by_host < host_updatable(workload).size() ? 1U : 0U;
    from_drive += std::any_of(made->transfers.begin(),
                              made->transfers.end(),
                              [&](const Transfer& t) {
                                return t.after_host_task >= 0 && t.lane == LaneKind::nvme_write;
                              })
                      ? 1U
                      : 0U;
  }
  EXPECT_GT(from_drive, 12U) << "updates whose state comes from the drive";
  EXPECT_GT(mixed, 2U) << "plans that update on both lanes";
}

}  // namespace
}  // namespace parbuckle
