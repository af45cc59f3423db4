// Byte pair encoding of one word: neighbouring symbols are merged, the merge with the lowest rank first, leftmost first
// among equals. O(n log n) in the length of the word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace parbuckle {

/// Which pairs of tokens merge, in which order, into which token.
class MergeTable {
 public:
  struct Merge {
    std::int32_t rank = -1;
    std::int32_t result = -1;
  };

  /// The rank of a merge is the number of add() calls before it. A pair that is given twice has its last rank.
  void add(std::int32_t left, std::int32_t right, std::int32_t result);
  void reserve(std::size_t merges);

  /// nullptr where the pair does not merge.
  [[nodiscard]] const Merge* find(std::int32_t left, std::int32_t right) const;

  struct Pair {
    std::int32_t left = -1;
    std::int32_t right = -1;
  };
  /// The pairs in order of rank; a place whose pair was given again later is {-1, -1}.
  [[nodiscard]] std::vector<Pair> pairs() const;
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(next_rank_); }

 private:
  struct Slot {
    Pair pair;
    Merge merge;
  };
  [[nodiscard]] std::size_t slot_of(std::int32_t left, std::int32_t right) const;
  void rehash(std::size_t slots);

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
  std::int32_t next_rank_ = 0;
};

/// The working memory of merging, kept between words so that short words allocate nothing.
class WordMerger {
 public:
  void clear() { symbols_.clear(); }
  void add(std::int32_t token) { symbols_.push_back({token, 0, 0}); }
  /// Merges what was added and appends the resulting tokens.
  void merge(const MergeTable& table, std::vector<std::int32_t>& to);

 private:
  struct Symbol {
    std::int32_t token;  // -1: merged into its left neighbour
    std::int32_t previous;
    std::int32_t next;
  };
  struct Candidate {
    std::int32_t rank;
    std::int32_t position;
    std::int32_t result;
    static bool later(const Candidate& a, const Candidate& b) {
      return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
    }
  };
  void consider(const MergeTable& table, std::int32_t left, std::int32_t right);
  void apply(const MergeTable& table, const Candidate& candidate);
  [[nodiscard]] Symbol& at(std::int32_t position) {
    return symbols_[static_cast<std::size_t>(position)];
  }

  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace parbuckle
