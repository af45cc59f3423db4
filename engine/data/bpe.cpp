#include "engine/data/bpe.h"

#include <algorithm>

namespace parbuckle {
namespace {

std::uint64_t mix(std::int32_t left, std::int32_t right) {
  std::uint64_t key = std::uint64_t{static_cast<std::uint32_t>(left)} << 32U |
                      std::uint64_t{static_cast<std::uint32_t>(right)};
  key = (key ^ key >> 31U) * 0x9E3779B97F4A7C15ULL;
  return key ^ key >> 32U;
}

}  // namespace

std::size_t MergeTable::slot_of(std::int32_t left, std::int32_t right) const {
  std::size_t slot = mix(left, right) & (slots_.size() - 1);
  while (slots_[slot].pair.left >= 0 &&
         (slots_[slot].pair.left != left || slots_[slot].pair.right != right)) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slot;
}

void MergeTable::rehash(std::size_t slots) {
  std::vector<Slot> old(slots);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.pair.left >= 0) {
      slots_[slot_of(slot.pair.left, slot.pair.right)] = slot;
    }
  }
}

void MergeTable::reserve(std::size_t merges) {
  std::size_t slots = 64;
  while (slots < merges + merges / 2) {
    slots *= 2;
  }
  if (slots > slots_.size()) {
    rehash(slots);
  }
}

void MergeTable::add(std::int32_t left, std::int32_t right, std::int32_t result) {
  reserve(used_ + 1);
  Slot& slot = slots_[slot_of(left, right)];
  used_ += slot.pair.left < 0 ? 1U : 0U;
  slot = {{left, right}, {next_rank_, result}};
  ++next_rank_;
}

const MergeTable::Merge* MergeTable::find(std::int32_t left, std::int32_t right) const {
  if (slots_.empty()) {
    return nullptr;
  }
  const Slot& slot = slots_[slot_of(left, right)];
  return slot.pair.left < 0 ? nullptr : &slot.merge;
}

std::vector<MergeTable::Pair> MergeTable::pairs() const {
  std::vector<Pair> out(static_cast<std::size_t>(next_rank_));
  for (const Slot& slot : slots_) {
    if (slot.pair.left >= 0) {
      out[static_cast<std::size_t>(slot.merge.rank)] = slot.pair;
    }
  }
  return out;
}

void WordMerger::consider(const MergeTable& table, std::int32_t left, std::int32_t right) {
  const MergeTable::Merge* merge = table.find(at(left).token, at(right).token);
  if (merge == nullptr) {
    return;
  }
  heap_.push_back({merge->rank, left, merge->result});
  std::push_heap(heap_.begin(), heap_.end(), Candidate::later);
}

void WordMerger::apply(const MergeTable& table, const Candidate& candidate) {
  Symbol& left = at(candidate.position);
  if (left.token < 0 || left.next < 0) {
    return;
  }
  Symbol& right = at(left.next);
  // The pair may have changed since the candidate was made. Like the reference library, compare what it makes now.
  const MergeTable::Merge* merge = table.find(left.token, right.token);
  if (merge == nullptr || merge->result != candidate.result) {
    return;
  }
  left.token = candidate.result;
  right.token = -1;
  left.next = right.next;
  if (left.next >= 0) {
    at(left.next).previous = candidate.position;
  }
  if (left.previous >= 0) {
    consider(table, left.previous, candidate.position);
  }
  if (left.next >= 0) {
    consider(table, candidate.position, left.next);
  }
}

void WordMerger::merge(const MergeTable& table, std::vector<std::int32_t>& to) {
  const auto count = static_cast<std::int32_t>(symbols_.size());
  heap_.clear();
  for (std::int32_t i = 0; i < count; ++i) {
    at(i).previous = i - 1;
    at(i).next = i + 1 < count ? i + 1 : -1;
  }
  for (std::int32_t i = 0; i + 1 < count; ++i) {
    consider(table, i, i + 1);
  }
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), Candidate::later);
    const Candidate candidate = heap_.back();
    heap_.pop_back();
    apply(table, candidate);
  }
  for (const Symbol& symbol : symbols_) {
    if (symbol.token >= 0) {
      to.push_back(symbol.token);
    }
  }
}

}  // namespace parbuckle
