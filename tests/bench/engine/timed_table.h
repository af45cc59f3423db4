// An operator table around another one that adds up how long each kind of call takes. A step without it pays nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/op.h"

namespace parbuckle::bench {

/// All calls of one kind, matrix products apart by their two widths.
struct OpTally {
  std::string label;
  std::int64_t calls = 0;
  double seconds = 0;      // wall clock
  double cpu_seconds = 0;  // of all threads of the process
  double flops = 0;        // of matrix products and attention
  double bytes = 0;        // operands, each once
};

class TimedTable {
 public:
  explicit TimedTable(const OpTable& inner) : inner_(inner) {}
  TimedTable(const TimedTable&) = delete;
  TimedTable& operator=(const TimedTable&) = delete;

  /// Must not outlive this object.
  [[nodiscard]] OpTable table();
  void clear() { tallies_.clear(); }
  /// Longest first.
  [[nodiscard]] std::vector<OpTally> sorted() const;

 private:
  static Result<std::int64_t> prepare(void* state, const OpShape& op);
  static Status run(void* state, const OpShape& op, const OpArgs& args);
  OpTally& tally_of(const OpShape& op);

  OpTable inner_;
  std::vector<OpTally> tallies_;
};

/// Seconds of CPU time that all threads of this process have used.
double process_cpu_seconds();

}  // namespace parbuckle::bench
