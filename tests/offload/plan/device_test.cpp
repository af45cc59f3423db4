// Plans beside a device with memory of its own: three tiers at once.
#include <gtest/gtest.h>

#include "parbuckle/units.h"

#include "offload/plan/planner.h"
#include "offload/plan/simulate.h"
#include "offload/plan/validate.h"
#include "tests/offload/plan/draft.h"
#include "tests/support/workload_generator.h"

namespace parbuckle {
namespace {

Workload small() {
  TransformerSizes sizes;
  sizes.layers = 3;
  sizes.clipping = true;
  return make_workload(sizes);
}

RoleBytes sum_of(const Plan& plan) {
  RoleBytes sum;
  for (const RoleBytes& role : plan.bytes) {
    sum.read += role.read;
    sum.written += role.written;
    sum.down += role.down;
    sum.up += role.up;
    sum.hosted += role.hosted;
  }
  return sum;
}

class ThreeTiers : public testing::Test {
 protected:
  // The least of both memories: everything passes through both.
  void SetUp() override {
    Budgets b;
    b.device_bytes = smallest_device_bytes(workload_, machine_).value();
    b.host_bytes = smallest_host_bytes(workload_, machine_, b).value();
    plan_ = plan(workload_, machine_, b).value();
    ASSERT_EQ(joined(validate(workload_, plan_)), "");
  }
  [[nodiscard]] std::string faults() const { return joined(validate(workload_, plan_)); }
  Transfer& first(LaneKind lane) {
    const auto found = std::find_if(plan_.transfers.begin(),
                                    plan_.transfers.end(),
                                    [&](const Transfer& t) { return t.lane == lane; });
    EXPECT_NE(found, plan_.transfers.end());
    return *found;
  }
  // The first transfer of `lane` that waits for one of `before`.
  Transfer& waiting(LaneKind lane, LaneKind before) {
    for (Transfer& t : plan_.transfers) {
      for (const TransferId id : t.after_transfers) {
        if (t.lane == lane && plan_.transfers[id.index()].lane == before) {
          return t;
        }
      }
    }
    ADD_FAILURE() << "no such wait";
    return plan_.transfers.front();
  }

  const Workload workload_ = small();
  const Hardware machine_ = device_machine();
  Plan plan_;
};

TEST_F(ThreeTiers, UsesEveryLane) {
  const RoleBytes sum = sum_of(plan_);
  EXPECT_GT(sum.read, 0);
  EXPECT_GT(sum.written, 0);
  EXPECT_GE(sum.down, sum.read);
  EXPECT_GE(sum.up, sum.written);
}

TEST_F(ThreeTiers, ADeviceCopyMustWaitForTheDrive) {
  waiting(LaneKind::h2d, LaneKind::nvme_read).after_transfers.clear();
  EXPECT_NE(faults(), "");
}

TEST_F(ThreeTiers, TheDriveMustWaitForTheDevice) {
  waiting(LaneKind::nvme_write, LaneKind::d2h).after_transfers.clear();
  EXPECT_NE(faults(), "");
}

TEST_F(ThreeTiers, StagingMustBeFreeBeforeItIsFilled) {
  waiting(LaneKind::nvme_read, LaneKind::h2d).after_transfers.clear();
  EXPECT_NE(faults().find("overwrites memory that is still in use"), std::string::npos) << faults();
}

TEST_F(ThreeTiers, ATaskMustWaitForTheLink) {
  for (Task& task : plan_.tasks) {
    if (!task.waits.empty()) {
      task.waits.clear();
      break;
    }
  }
  EXPECT_NE(faults(), "");
}

TEST_F(ThreeTiers, ABlockMustNotLeaveTheDeviceBeforeItIsMade) {
  first(LaneKind::d2h).after_task = -1;
  EXPECT_NE(faults(), "");
}

TEST_F(ThreeTiers, EndsOfACopyMustBeInTheirTiers) {
  Transfer& down = first(LaneKind::h2d);
  std::swap(down.allocation, down.host);
  EXPECT_NE(faults().find("its allocation is of another tier"), std::string::npos) << faults();
}

TEST(DevicePlans, MoveNothingWhereTheDeviceHoldsAll) {
  const Workload workload = small();
  const Plan made = plan(workload, device_machine(), Budgets{}).value();
  EXPECT_TRUE(made.transfers.empty());
  for (const Allocation& allocation : made.allocations) {
    EXPECT_TRUE(allocation.tier == Tier::device || is_mirrored(workload, allocation.span))
        << allocation.what << " lies in host memory";
  }
}

TEST(DevicePlans, LeaveTheDriveAloneWhereHostMemoryHoldsAll) {
  const Workload workload = small();
  Budgets b;
  b.device_bytes = smallest_device_bytes(workload, device_machine()).value();
  const Plan made = plan(workload, device_machine(), b).value();
  const RoleBytes sum = sum_of(made);
  EXPECT_EQ(sum.read + sum.written, 0);
  EXPECT_GT(sum.down, 0);
  EXPECT_GT(sum.hosted, 0);
  EXPECT_EQ(joined(validate(workload, made)), "");
}

TEST(DevicePlans, RefuseADeviceThatIsTooSmallWithWhatWorks) {
  const Workload workload = small();
  const std::int64_t least = smallest_device_bytes(workload, device_machine()).value();
  Budgets b;
  b.device_bytes = least - page_bytes;
  const Result<Plan> refused = plan(workload, device_machine(), b);
  ASSERT_EQ(refused.status().code(), Code::resource_exhausted);
  EXPECT_NE(
      refused.status().message().find("device memory: " + format_size(b.device_bytes) + " is "),
      std::string::npos)
      << refused.status().message();
  b.device_bytes = least;
  EXPECT_TRUE(plan(workload, device_machine(), b).ok());
}

TEST(DevicePlans, OneMiBLessHostMemoryIsRefusedWithWhatWorks) {
  const Workload workload = small();
  Budgets b;
  b.device_bytes = smallest_device_bytes(workload, device_machine()).value();
  const std::int64_t least = smallest_host_bytes(workload, device_machine(), b).value();
  b.host_bytes = least - mib;
  const Result<Plan> refused = plan(workload, device_machine(), b);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("the smallest that works is " +
                                            std::to_string(least / mib) + "MiB"),
            std::string::npos)
      << refused.status().message();
}

// The main job's model whose state is larger than both memories: 2.1 GiB over 320 MiB of device, 700 MiB of host and a drive.
TEST(DevicePlans, SmolLM2OverThreeTiers) {
  const Workload workload = make_workload(smollm2_135m(4, 256));
  Budgets b;
  b.device_bytes = 320 * mib;
  b.host_bytes = 700 * mib;
  const Result<Plan> result = plan(workload, device_machine(), b);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const Plan& made = *result;
  ASSERT_EQ(joined(validate(workload, made)), "");
  const RoleBytes sum = sum_of(made);
  EXPECT_GT(sum.read, 0);
  EXPECT_GT(sum.hosted, 300 * mib) << "host memory is used for homes";
  EXPECT_LE(made.bound.step_s, made.predicted.step_s);
}

}  // namespace
}  // namespace parbuckle
