// The facade: what the command line does, as calls. Nothing here prints; progress goes to an Observer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "parbuckle/config.h"
#include "parbuckle/status.h"

namespace parbuckle {

/// Bytes of one role ("weight", "moment1", "activation", ...) between host memory and the drive in one step.
struct RoleTraffic {
  std::string role;
  std::int64_t read = 0;
  std::int64_t written = 0;
  std::int64_t planned_read = 0;
  std::int64_t planned_written = 0;
};

/// One optimizer step, under the names of Hugging Face's log history plus ours.
struct StepRecord {
  std::int64_t step = 0;
  double epoch = 0;
  double loss = 0;       // sum over the step's targets / their number
  double grad_norm = 0;  // before clipping
  double learning_rate = 0;
  std::int64_t tokens = 0;  // without padding
  std::int64_t targets = 0;
  std::int64_t num_input_tokens_seen = 0;
  double step_seconds = 0;
  double predicted_step_seconds = 0;
  std::int64_t nvme_read_bytes = 0;
  std::int64_t nvme_written_bytes = 0;
  std::int64_t to_device_bytes = 0;  // over the link of a device with memory of its own
  std::int64_t from_device_bytes = 0;
  std::int64_t planned_nvme_read_bytes =
      0;  // of this step: its shapes, nothing to read yet in the first
  std::int64_t planned_nvme_written_bytes = 0;
  std::int64_t arena_peak_bytes = 0;  // end of the highest range used
  std::vector<RoleTraffic> traffic;   // roles that moved or were to move
  bool skipped = false;               // no update: no targets, or a loss or norm that is not finite
};

struct EvalRecord {
  std::int64_t step = 0;
  double eval_loss = 0;
  double perplexity = 0;
  std::int64_t targets = 0;
  double eval_runtime = 0;
};

/// Planned beside measured, at the end of a run.
struct TrainReport {
  std::int64_t steps = 0;
  std::int64_t skipped_steps = 0;
  double train_loss = 0;  // mean over steps
  double train_runtime = 0;
  double tokens_per_second = 0;  // without padding, steps only
  double planned_step_seconds = 0;
  double measured_step_seconds = 0;  // median without the first step
  std::int64_t planned_host_bytes =
      0;  // the budget, or the arena plus the reserve where none was set
  std::int64_t measured_peak_rss_bytes = 0;
  std::int64_t nvme_read_bytes = 0;  // whole run
  std::int64_t nvme_written_bytes = 0;
  std::int64_t planned_nvme_read_bytes = 0;
  std::int64_t planned_nvme_written_bytes = 0;
  std::int64_t planned_device_bytes =
      0;  // arena of a device with memory of its own; 0: the host computes
  std::int64_t measured_device_bytes = 0;
  std::int64_t to_device_bytes = 0;  // whole run
  std::int64_t from_device_bytes = 0;
  std::int64_t planned_to_device_bytes = 0;
  std::int64_t planned_from_device_bytes = 0;
  std::int64_t planned_arena_bytes = 0;
  std::int64_t measured_arena_peak_bytes = 0;
  std::string state_hash;  // of weights, both moments and losses
  std::string output_dir;
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_note(std::string_view /*line*/) {}
  virtual void on_plan(std::string_view /*text*/) {}
  virtual void on_step(const StepRecord& /*record*/, std::int64_t /*total_steps*/) {}
  virtual void on_eval(const EvalRecord& /*record*/) {}
};

/// Fine-tunes and saves. Nothing is written before the plan stands and the budget is known to hold.
Result<TrainReport> train(const TrainConfig& config, Observer& observer);

/// The plan `train` would follow, as text or JSON.
Result<std::string> plan(const TrainConfig& config, bool json, Observer& observer);

/// Loss and perplexity over the targets of a data set.
Result<EvalRecord> evaluate(const EvalConfig& config, Observer& observer);

struct Generation {
  std::vector<std::int32_t> prompt_ids;
  std::vector<std::int32_t> new_ids;
  std::string text;
  double seconds = 0;
};
/// `on_text` receives the text as it comes (whole UTF-8 sequences).
Result<Generation> generate(const GenerateConfig& config,
                            const std::function<void(std::string_view)>& on_text,
                            Observer& observer);

/// Text of what a model folder, .safetensors or .gguf file holds and whether it can be trained.
Result<std::string> inspect(const std::string& path);

/// Ids as text, one row per record.
Result<std::string> tokenize(const TokenizeConfig& config);

/// Measures this machine into a Hardware file's text (JSON).
Result<std::string> probe(const MemoryConfig& config, Observer& observer);

}  // namespace parbuckle
