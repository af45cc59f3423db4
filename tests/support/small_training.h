// A short training of one of the fixtures' small models, on rows of different lengths: several ShapeKeys.
#pragma once

#include <string>

#include "parbuckle/config.h"

#include "tests/support/scratch_folder.h"

namespace parbuckle {

/// What is taken away from the planner; empty: it decides.
struct ForcedPlacement {
  std::string order;
  std::string activations;
  std::string window;
  std::string optimizer;  // where it runs
  friend bool operator==(const ForcedPlacement&, const ForcedPlacement&) = default;
};

class SmallTraining {
 public:
  /// `model`: a folder of fixtures/models; the test has checked that it is there.
  explicit SmallTraining(std::string model);

  /// Five steps of four micro-batches in 1 GiB: everything fits.
  [[nodiscard]] TrainConfig config(const ForcedPlacement& forced, double max_norm) const;

 private:
  std::string model_;
  ScratchFolder scratch_{"small_training"};
};

}  // namespace parbuckle
