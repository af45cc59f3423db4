// Programs made ready for a device: every op prepared once, then run over bound regions without a further thought.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parbuckle/status.h"

#include "engine/base/ids.h"
#include "engine/base/op.h"
#include "engine/base/program.h"
#include "kernels/runtime/device.h"

namespace parbuckle {

class ProgramRunner {
 public:
  /// Prepares the programs marked in `used` on `stream`'s thread, where they will run, and checks that every op's
  /// workspace and every operand lies inside its region. `programs` must outlive the runner.
  static Result<ProgramRunner> create(std::span<const Program> programs,
                                      const std::vector<bool>& used,
                                      OpTable op_table,
                                      Stream& stream);

  /// Runs a prepared program. regions[i] is the address of region i; `scratch` of the last one. Allocates nothing.
  Status run(ProgramId program, std::span<std::byte* const> regions, std::byte* scratch);

 private:
  ProgramRunner(std::span<const Program> programs, OpTable op_table)
      : programs_(programs), op_table_(op_table), shapes_(programs.size()) {}
  Status prepare(const std::vector<bool>& used);
  Status prepare_op(const Program& program, const OpCall& call, const OpShape& shape);

  std::span<const Program> programs_;
  OpTable op_table_;
  std::vector<std::vector<OpShape>> shapes_;  // per program, per op
  std::vector<OperandView> views_;            // of the op that runs
};

}  // namespace parbuckle
