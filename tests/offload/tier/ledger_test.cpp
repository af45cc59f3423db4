#include "offload/tier/ledger.h"

#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace parbuckle {
namespace {

TEST(Ledger, ChargesByTierAndRoleAndRemembersPeaks) {
  Ledger ledger;
  {
    auto weight = ledger.reserve(Tier::host, Role::weight, 100);
    auto scratch = ledger.reserve(Tier::host, Role::scratch, 50);
    ASSERT_TRUE(weight.ok() && scratch.ok());
    EXPECT_EQ(ledger.held(Tier::host), 150);
    EXPECT_EQ(ledger.held(Tier::host, Role::weight), 100);
    EXPECT_EQ(ledger.held(Tier::nvme), 0);
  }
  EXPECT_EQ(ledger.held(Tier::host), 0);
  EXPECT_EQ(ledger.peak(Tier::host), 150);
  EXPECT_EQ(ledger.rows(),
            (std::vector<LedgerRow>{{Tier::host, Role::weight, 0, 100},
                                    {Tier::host, Role::scratch, 0, 50}}));
}

TEST(Ledger, AReservationMovesAndIsGivenBackOnce) {
  Ledger ledger;
  auto first = ledger.reserve(Tier::host, Role::gradient, 10);
  ASSERT_TRUE(first.ok());
  Reservation held = std::move(first).value();
  Reservation other = std::move(held);
  EXPECT_FALSE(
      held.held());  // NOLINT(bugprone-use-after-move): what a moved-from claim says is tested
  EXPECT_EQ(ledger.held(Tier::host), 10);
  auto second = ledger.reserve(Tier::host, Role::gradient, 5);
  ASSERT_TRUE(second.ok());
  other = std::move(second).value();
  EXPECT_EQ(ledger.held(Tier::host), 5);
  other = Reservation();
  EXPECT_EQ(ledger.held(Tier::host), 0);
}

TEST(Ledger, RefusesBeyondTheLimitAndChargesNothing) {
  Ledger ledger;
  ledger.limit(Tier::host, 2048);
  auto kept = ledger.reserve(Tier::host, Role::weight, 1024);
  auto refused = ledger.reserve(Tier::host, Role::moment1, 2048);
  ASSERT_TRUE(kept.ok());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::resource_exhausted);
  const std::string message = refused.status().message();
  EXPECT_NE(message.find("host"), std::string::npos) << message;
  EXPECT_NE(message.find("moment1"), std::string::npos) << message;
  EXPECT_NE(message.find("1.00 KiB"), std::string::npos) << message;
  EXPECT_EQ(ledger.held(Tier::host), 1024);
  EXPECT_EQ(ledger.peak(Tier::host, Role::moment1), 0);
}

TEST(Ledger, SeveralThreadsLeaveNothingBehind) {
  Ledger ledger;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&ledger] {
      for (int i = 0; i < 500; ++i) {
        auto claim = ledger.reserve(Tier::nvme, Role::weight, 3);
        EXPECT_TRUE(claim.ok());
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(ledger.held(Tier::nvme), 0);
  EXPECT_LE(ledger.peak(Tier::nvme), 12);
}

}  // namespace
}  // namespace parbuckle
