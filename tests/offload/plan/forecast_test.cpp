#include "offload/plan/forecast.h"

#include <gtest/gtest.h>

#include "parbuckle/units.h"

#include "offload/plan/simulate.h"
#include "tests/offload/plan/draft.h"
#include "tests/support/workload_generator.h"

namespace parbuckle {
namespace {

std::int64_t bytes_of(const std::vector<RoleBytes>& roles,
                      Role role,
                      std::int64_t RoleBytes::*member) {
  for (const RoleBytes& bytes : roles) {
    if (bytes.role == role) {
      return bytes.*member;
    }
  }
  return 0;
}

class Forecast : public testing::Test {
 protected:
  Forecast() : workload_(make_workload(smollm2_135m(2, 256))) {
    // A second, smaller shape: half the rows, programs twice as fast.
    const ShapeKey large = workload_.shapes.front();
    workload_.shapes = {{.rows = large.rows / 2}, large};
    for (Family& family : workload_.families) {
      family.programs.insert(family.programs.begin(), family.programs.front());
      family.flops.insert(family.flops.begin(), family.flops.front() / 2);
      family.traffic_bytes.insert(family.traffic_bytes.begin(), family.traffic_bytes.front() / 2);
    }
    plan_ = draft(workload_, streamed(workload_, Window::lazy));
  }

  StepForecast at(const std::vector<std::int32_t>& shapes, bool first = false) const {
    return forecast_step(workload_, plan_, small_machine(), {.shapes = shapes, .first = first})
        .value();
  }

  Workload workload_;
  Plan plan_;
};

TEST_F(Forecast, AtTheLargestShapeIsThePlan) {
  const StepForecast whole = at({1, 1});
  for (const RoleBytes& planned : plan_.bytes) {
    EXPECT_EQ(bytes_of(whole.bytes, planned.role, &RoleBytes::read), planned.read);
    EXPECT_EQ(bytes_of(whole.bytes, planned.role, &RoleBytes::written), planned.written);
  }
  const auto seconds = family_seconds(workload_, small_machine()).value();
  EXPECT_DOUBLE_EQ(whole.step_s, simulate(plan_, seconds, small_machine())->step_s);
}

TEST_F(Forecast, ShortMicroBatchesMoveAndTakeLess) {
  const StepForecast whole = at({1, 1});
  const StepForecast half = at({0, 1});
  const StepForecast both = at({0, 0});
  EXPECT_LT(half.step_s, whole.step_s);
  EXPECT_LT(both.step_s, half.step_s);
  for (const Role role : {Role::activation, Role::boundary}) {
    const auto written = [role](const StepForecast& step) {
      return static_cast<double>(bytes_of(step.bytes, role, &RoleBytes::written));
    };
    const double all = written(whole);
    const double pages = 0.01 * all;  // every block is a whole number of them
    ASSERT_GT(all, 0);
    EXPECT_NEAR(written(half), 0.75 * all, pages);
    EXPECT_NEAR(written(both), 0.5 * all, pages);
  }
  EXPECT_EQ(bytes_of(half.bytes, Role::weight, &RoleBytes::read),
            bytes_of(whole.bytes, Role::weight, &RoleBytes::read));
}

TEST_F(Forecast, TheFirstStepReadsNoMomentsAndNoOldGradients) {
  const StepForecast steady = at({1, 1});
  const StepForecast first = at({1, 1}, /*first=*/true);
  EXPECT_GT(bytes_of(steady.bytes, Role::moment1, &RoleBytes::read), 0);
  EXPECT_EQ(bytes_of(first.bytes, Role::moment1, &RoleBytes::read), 0);
  EXPECT_EQ(bytes_of(first.bytes, Role::moment2, &RoleBytes::read), 0);
  EXPECT_LT(bytes_of(first.bytes, Role::gradient, &RoleBytes::read),
            bytes_of(steady.bytes, Role::gradient, &RoleBytes::read));
  // What this step itself has written comes back.
  EXPECT_EQ(bytes_of(first.bytes, Role::activation, &RoleBytes::read),
            bytes_of(steady.bytes, Role::activation, &RoleBytes::read));
  EXPECT_EQ(bytes_of(first.bytes, Role::weight, &RoleBytes::read),
            bytes_of(steady.bytes, Role::weight, &RoleBytes::read));
  EXPECT_EQ(bytes_of(first.bytes, Role::moment1, &RoleBytes::written),
            bytes_of(steady.bytes, Role::moment1, &RoleBytes::written));
}

}  // namespace
}  // namespace parbuckle
