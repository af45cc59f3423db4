// Who holds how many bytes: every byte of a tier is charged to a role through a move-only Reservation.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "parbuckle/status.h"
#include "parbuckle/tier.h"

#include "engine/base/workload.h"

namespace parbuckle {

class Ledger;

/// A claim on bytes of a tier for a role; given back when destroyed.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation();

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] bool held() const { return ledger_ != nullptr; }

 private:
  friend class Ledger;
  Reservation(Ledger& ledger, Tier tier, Role role, std::int64_t bytes)
      : ledger_(&ledger), tier_(tier), role_(role), bytes_(bytes) {}

  Ledger* ledger_ = nullptr;
  Tier tier_ = Tier::host;
  Role role_ = Role::scratch;
  std::int64_t bytes_ = 0;
};

struct LedgerRow {
  Tier tier = Tier::host;
  Role role = Role::scratch;
  std::int64_t held_bytes = 0;
  std::int64_t peak_bytes = 0;
  friend bool operator==(const LedgerRow&, const LedgerRow&) = default;
};

/// Safe to use from several threads. Must outlive its reservations. Reserving allocates nothing.
class Ledger {
 public:
  static constexpr std::int64_t unlimited = -1;

  /// Must be called before the first reservation of that tier; tiers are unlimited at first.
  void limit(Tier tier, std::int64_t bytes);
  /// Fails with resource_exhausted, naming tier, role and by how many bytes it is short; nothing is charged then.
  Result<Reservation> reserve(Tier tier, Role role, std::int64_t bytes);

  [[nodiscard]] std::int64_t held(Tier tier) const;
  [[nodiscard]] std::int64_t held(Tier tier, Role role) const;
  [[nodiscard]] std::int64_t peak(Tier tier) const;
  [[nodiscard]] std::int64_t peak(Tier tier, Role role) const;
  /// Rows that ever held bytes, by tier, then role.
  [[nodiscard]] std::vector<LedgerRow> rows() const;

 private:
  friend class Reservation;
  struct Account {
    std::int64_t held = 0;
    std::int64_t peak = 0;
    void add(std::int64_t bytes);
  };
  struct TierAccount {
    std::int64_t limit = unlimited;
    Account total;
    std::array<Account, role_count> roles{};
  };
  static constexpr int tier_count = 3;

  void release(Tier tier, Role role, std::int64_t bytes);
  TierAccount& of(Tier tier) { return tiers_[static_cast<std::size_t>(tier)]; }
  [[nodiscard]] const TierAccount& of(Tier tier) const {
    return tiers_[static_cast<std::size_t>(tier)];
  }

  mutable std::mutex mutex_;
  std::array<TierAccount, tier_count> tiers_{};
};

}  // namespace parbuckle
