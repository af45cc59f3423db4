#include "offload/tier/ledger.h"

#include <algorithm>
#include <string>
#include <utility>

#include "parbuckle/units.h"

#include "engine/base/check.h"

namespace parbuckle {
namespace {

constexpr std::array<const char*, 3> tier_names = {"device", "host", "nvme"};

}  // namespace

Reservation::Reservation(Reservation&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)),
      tier_(other.tier_),
      role_(other.role_),
      bytes_(std::exchange(other.bytes_, 0)) {
}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    if (ledger_ != nullptr) {
      ledger_->release(tier_, role_, bytes_);
    }
    ledger_ = std::exchange(other.ledger_, nullptr);
    tier_ = other.tier_;
    role_ = other.role_;
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Reservation::~Reservation() {
  if (ledger_ != nullptr) {
    ledger_->release(tier_, role_, bytes_);
  }
}

void Ledger::Account::add(std::int64_t bytes) {
  held += bytes;
  peak = std::max(peak, held);
}

void Ledger::limit(Tier tier, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  of(tier).limit = bytes;
}

Result<Reservation> Ledger::reserve(Tier tier, Role role, std::int64_t bytes) {
  PARBUCKLE_CHECK(bytes >= 0, "a reservation has a negative size");
  const std::lock_guard lock(mutex_);
  TierAccount& account = of(tier);
  if (account.limit != unlimited && account.total.held + bytes > account.limit) {
    return exhausted(std::string(tier_names[static_cast<std::size_t>(tier)]) +
                     " tier: " + format_size(bytes) + " for " + std::string(to_string(role)) +
                     ", short by " + format_size(account.total.held + bytes - account.limit) +
                     " of " + format_size(account.limit));
  }
  account.total.add(bytes);
  account.roles[static_cast<std::size_t>(role)].add(bytes);
  return Reservation(*this, tier, role, bytes);
}

void Ledger::release(Tier tier, Role role, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  of(tier).total.held -= bytes;
  of(tier).roles[static_cast<std::size_t>(role)].held -= bytes;
}

std::int64_t Ledger::held(Tier tier) const {
  const std::lock_guard lock(mutex_);
  return of(tier).total.held;
}

std::int64_t Ledger::held(Tier tier, Role role) const {
  const std::lock_guard lock(mutex_);
  return of(tier).roles[static_cast<std::size_t>(role)].held;
}

std::int64_t Ledger::peak(Tier tier) const {
  const std::lock_guard lock(mutex_);
  return of(tier).total.peak;
}

std::int64_t Ledger::peak(Tier tier, Role role) const {
  const std::lock_guard lock(mutex_);
  return of(tier).roles[static_cast<std::size_t>(role)].peak;
}

std::vector<LedgerRow> Ledger::rows() const {
  const std::lock_guard lock(mutex_);
  std::vector<LedgerRow> rows;
  for (const Tier tier : {Tier::device, Tier::host, Tier::nvme}) {
    for (int role = 0; role < role_count; ++role) {
      const Account& account = of(tier).roles[static_cast<std::size_t>(role)];
      if (account.peak > 0) {
        rows.push_back({tier, static_cast<Role>(role), account.held, account.peak});
      }
    }
  }
  return rows;
}

}  // namespace parbuckle
