#include "engine/train/schedule.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/shared_path.h"

namespace parbuckle {
namespace {

TEST(Schedule, EqualsTransformers) {
  PARBUCKLE_NEEDS_SHARED("fixtures/optim/schedules.json");
  std::ifstream file(shared_file("fixtures/optim/schedules.json"));
  const auto all = nlohmann::json::parse(file);
  int checked = 0;
  for (const char* name :
       {"constant", "constant_with_warmup", "linear", "linear_ends_early", "cosine"}) {
    const auto& entry = all.at(name);
    const auto kind = schedule_kind_from_string(entry.at("name"));
    ASSERT_TRUE(kind.ok());
    const Schedule schedule{.kind = *kind,
                            .peak = 1e-3,
                            .warmup_steps = entry.at("arguments").value("num_warmup_steps", 0),
                            .total_steps = entry.at("arguments").value("num_training_steps", 0)};
    for (std::size_t step = 0; step < entry.at("lr").size(); ++step, ++checked) {
      EXPECT_NEAR(learning_rate(schedule, static_cast<std::int64_t>(step)),
                  entry.at("lr")[step].get<double>(),
                  1e-12)
          << name << " step " << step;
    }
  }
  EXPECT_EQ(checked, 250);
}

TEST(Schedule, WarmUpCanStartAboveZero) {
  const Schedule schedule{.kind = ScheduleKind::constant_with_warmup,
                          .peak = 2e-5,
                          .warmup_steps = 5,
                          .warmup_from_zero = false};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 4e-6);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4), 2e-5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 59), 2e-5);
}

TEST(Schedule, UnknownNamesAreRefusedWithTheList) {
  const auto kind = schedule_kind_from_string("triangular");
  ASSERT_FALSE(kind.ok());
  EXPECT_NE(kind.status().message().find("cosine"), std::string::npos);
}

}  // namespace
}  // namespace parbuckle
