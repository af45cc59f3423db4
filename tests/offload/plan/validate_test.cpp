#include "offload/plan/validate.h"

#include <gtest/gtest.h>

#include "parbuckle/units.h"

#include "tests/offload/plan/draft.h"
#include "tests/support/workload_generator.h"

namespace parbuckle {
namespace {

Workload small() {
  TransformerSizes sizes;
  sizes.block_elements = 4096;
  return make_workload(sizes);
}

bool mentions(const std::vector<std::string>& faults, const std::string& what) {
  return joined(faults).find(what) != std::string::npos;
}

TEST(Validate, AcceptsAllResidentAndAllStreamed) {
  const Workload workload = small();
  for (const Window window : {Window::after, Window::lazy}) {
    for (const std::int32_t group : {1, 2}) {
      for (const bool resident : {true, false}) {
        Choice choice = resident ? all_resident(workload, window) : streamed(workload, window);
        choice.group = group;
        const Plan plan = draft(workload, choice);
        EXPECT_EQ(joined(validate(workload, plan)), "");
        EXPECT_EQ(plan.transfers.empty(), resident);
      }
    }
  }
}

TEST(Validate, AcceptsFetchingAhead) {
  const Workload workload = small();
  Choice choice = streamed(workload, Window::lazy);
  const std::int64_t tight = draft(workload, choice).host_arena_bytes;
  choice.prefetch = 4;
  for (const std::int64_t spare : {0, 64, 256, 1024}) {
    const Plan plan = draft(workload, choice, tight + spare * kib);
    EXPECT_EQ(joined(validate(workload, plan)), "");
    EXPECT_LE(plan.host_arena_bytes, tight + spare * kib);
  }
}

class Planted : public testing::Test {
 protected:
  Planted() {
    Choice choice = streamed(workload_, Window::lazy);
    choice.prefetch = 2;
    plan_ = draft(workload_, choice, 512 * kib);
  }
  std::vector<std::string> faults() { return validate(workload_, plan_); }

  // Keeps the plan's sums right where a write became a read, so that only the replay can notice.
  void move_sum(Role role, std::int64_t bytes) {
    for (RoleBytes& sum : plan_.bytes) {
      if (sum.role == role) {
        sum.read += bytes;
        sum.written -= bytes;
      }
    }
  }

  Workload workload_ = small();
  Plan plan_;
};

TEST_F(Planted, NothingIsWrongBefore) {
  EXPECT_EQ(joined(faults()), "");
}

TEST_F(Planted, DroppedWaitOfATask) {
  int caught = 0;
  int dropped = 0;
  for (std::size_t t = 0; t < plan_.tasks.size(); ++t) {
    for (std::size_t i = 0; i < plan_.tasks[t].waits.size(); ++i) {
      const Plan sound = plan_;
      const Transfer& waited = plan_.transfers[plan_.tasks[t].waits[i].index()];
      const bool read = waited.lane == LaneKind::nvme_read;
      plan_.tasks[t].waits.erase(plan_.tasks[t].waits.begin() + static_cast<std::ptrdiff_t>(i));
      dropped += read ? 1 : 0;
      caught += read && mentions(faults(), "where") ? 1 : 0;
      plan_ = sound;
    }
  }
  EXPECT_GT(dropped, 20);
  EXPECT_EQ(caught, dropped);
}

// In the tightest placement nearly every fetch follows a drain in the same memory.
TEST_F(Planted, DroppedWaitForMemoryStillDraining) {
  plan_ = draft(workload_, streamed(workload_, Window::lazy));
  ASSERT_EQ(joined(faults()), "");
  int caught = 0;
  int planted = 0;
  for (std::size_t i = 0; i < plan_.transfers.size(); ++i) {
    if (plan_.transfers[i].after_transfers.empty()) {
      continue;
    }
    const Plan sound = plan_;
    plan_.transfers[i].after_transfers.clear();
    ++planted;
    caught += faults().empty() ? 0 : 1;
    plan_ = sound;
  }
  EXPECT_GT(planted, 10);
  EXPECT_GT(caught,
            planted / 3);  // the others wait behind a fetch of their lane that waits for the same
}

// Transfers whose start is fixed by `after_task` and by nothing else: all before them in their lane wait for earlier tasks.
std::vector<std::size_t> bound_by_task(const Plan& plan, LaneKind lane) {
  std::vector<std::size_t> found;
  std::int32_t latest = -1;
  for (std::size_t i = 0; i < plan.transfers.size(); ++i) {
    const Transfer& t = plan.transfers[i];
    if (t.lane != lane) {
      continue;
    }
    if (t.after_task > latest && t.after_transfers.empty()) {
      found.push_back(i);
    }
    latest = std::max(latest, t.after_task);
  }
  return found;
}

TEST_F(Planted, FetchThatStartsTooEarly) {
  const std::vector<std::size_t> bound = bound_by_task(plan_, LaneKind::nvme_read);
  ASSERT_GT(bound.size(), 3U);
  for (const std::size_t i : bound) {
    const Plan sound = plan_;
    plan_.transfers[i].after_task = -1;
    EXPECT_TRUE(mentions(faults(), "overwrites")) << "transfer " << i;
    plan_ = sound;
  }
}

TEST_F(Planted, DrainThatStartsTooEarly) {
  const std::vector<std::size_t> bound = bound_by_task(plan_, LaneKind::nvme_write);
  ASSERT_GT(bound.size(), 10U);
  for (const std::size_t i : bound) {
    const Plan sound = plan_;
    plan_.transfers[i].after_task = -1;
    EXPECT_FALSE(faults().empty()) << "transfer " << i;
    plan_ = sound;
  }
}

TEST_F(Planted, OverlappingOffsets) {
  for (Allocation& a : plan_.allocations) {
    if (a.role == Role::weight) {
      a.offset = 0;  // where something resident lies
      break;
    }
  }
  EXPECT_FALSE(faults().empty());
}

TEST_F(Planted, MissingDrain) {
  for (std::size_t i = plan_.transfers.size(); i-- > 0;) {
    const Role role = workload_.blocks[plan_.transfers[i].block.index()].role;
    if (plan_.transfers[i].lane == LaneKind::nvme_write && role == Role::moment1) {
      plan_.transfers[i].lane = LaneKind::nvme_read;
      move_sum(role, plan_.transfers[i].bytes);
      break;
    }
  }
  EXPECT_TRUE(mentions(faults(), "was changed and not written to its home"));
}

TEST_F(Planted, WrongOperand) {
  for (Task& task : plan_.tasks) {
    if (task.kind == TaskKind::forward && task.micro_batch == 1) {
      task.micro_batch = 0;
      break;
    }
  }
  EXPECT_TRUE(mentions(faults(), "no task of the workload"));
  EXPECT_TRUE(mentions(faults(), "is missing"));
}

TEST_F(Planted, TasksOutOfOrder) {
  for (std::size_t i = 0; i + 1 < plan_.tasks.size(); ++i) {
    if (plan_.tasks[i].kind == TaskKind::backward &&
        plan_.tasks[i + 1].kind == TaskKind::backward) {
      std::swap(plan_.tasks[i], plan_.tasks[i + 1]);
      break;
    }
  }
  EXPECT_TRUE(mentions(faults(), "do not ascend"));
}

TEST_F(Planted, CircleOfWaits) {
  for (Transfer& transfer : plan_.transfers) {
    if (transfer.lane == LaneKind::nvme_read) {
      transfer.after_task = static_cast<std::int32_t>(plan_.tasks.size()) - 1;
      break;
    }
  }
  EXPECT_TRUE(mentions(faults(), "circle"));
}

TEST_F(Planted, BudgetsAndSums) {
  plan_.budgets.host_bytes = plan_.host_arena_bytes - 1;
  EXPECT_TRUE(mentions(faults(), "exceed the host budget"));
  plan_.budgets = Budgets();
  plan_.host_arena_bytes += page_bytes;
  EXPECT_TRUE(mentions(faults(), "the arena of the host does not end with its last allocation"));
  plan_.host_arena_bytes -= page_bytes;
  plan_.nvme_pool_bytes -= page_bytes;
  EXPECT_TRUE(mentions(faults(), "nvme_pool_bytes"));
}

TEST_F(Planted, HomeOverwritten) {
  const Workload workload = small();
  Plan plan = draft(workload, all_resident(workload, Window::after));
  for (Home& home : plan.homes) {
    home.tier = Tier::nvme;
    break;
  }
  EXPECT_FALSE(validate(workload, plan).empty());
}

}  // namespace
}  // namespace parbuckle
