// What stands before a run: model, tokenizer, data, programs, machine, plan. Nothing is written and no large memory is
// taken until all of it is there.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parbuckle/config.h"
#include "parbuckle/status.h"
#include "parbuckle/trainer.h"

#include "engine/base/plan.h"
#include "engine/checkpoint/model_folder.h"
#include "engine/data/dataset.h"
#include "engine/data/loader.h"
#include "engine/data/tokenizer.h"
#include "engine/graph/lower.h"
#include "engine/train/machine.h"
#include "engine/train/tiers.h"
#include "offload/plan/planner.h"
#include "offload/run/executor.h"

namespace parbuckle {

/// A model and how text becomes ids for it. `tokenizer` is empty where the folder has none.
struct OpenedModel {
  ModelFolder folder;
  std::optional<Tokenizer> tokenizer;
  std::int32_t eos_id = -1;  // appended to records; -1: none
};
Result<OpenedModel> open_model(const std::string& path, Observer& observer);

/// The data set's rows for this model.
Result<Dataset> open_data(const std::string& path,
                          const OpenedModel& model,
                          const DataConfig& config,
                          std::int64_t most_rows,
                          Observer& observer);

/// Programs and plan of one phase.
struct Planned {
  Lowered lowered;
  Plan plan;
};

/// The executor of a phase in memory that was taken for it or for a plan it stands beside. All arguments must outlive it.
Result<std::unique_ptr<Executor>> make_executor(const Planned& planned,
                                                Machine& machine,
                                                Tiers& tiers);

/// Prepares the shapes in which `loader` gives micro-batches: exact if they are few, evenly spaced otherwise.
Result<std::vector<ShapeKey>> shapes_of(const Loader& loader);

/// Turns --order, --activations, --optimizer-window and --optimizer-device into what the planner may not choose.
Result<Forced> forced_choices(const TrainConfig& config);

/// One line that names every fault of a plan; ok if there is none.
Status check_plan(const Workload& workload, const Plan& plan);

}  // namespace parbuckle
