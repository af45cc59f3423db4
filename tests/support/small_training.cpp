#include "tests/support/small_training.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "tests/support/shared_path.h"

namespace parbuckle {

SmallTraining::SmallTraining(std::string model) : model_(std::move(model)) {
  std::filesystem::create_directories(scratch_.path() / "nvme");
  std::ofstream data(scratch_.path() / "rows.jsonl");
  for (int row = 0; row < 24; ++row) {
    data << "{\"input_ids\": [";
    const int length = 20 + (row * 37) % 160;
    for (int i = 0; i < length; ++i) {
      data << (i == 0 ? "" : ", ") << (row * 31 + i * 7) % 90;
    }
    data << "]}\n";
  }
}

TrainConfig SmallTraining::config(const ForcedPlacement& forced, double max_norm) const {
  TrainConfig c;
  c.model = shared_file("fixtures/models/" + model_).string();
  c.data = (scratch_.path() / "rows.jsonl").string();
  c.output_dir = (scratch_.path() / "out").string();
  c.overwrite_output_dir = true;
  c.gradient_accumulation_steps = 4;
  c.max_steps = 5;
  c.learning_rate = 1e-3;
  c.weight_decay = 0.1;
  c.max_grad_norm = max_norm;
  c.dataset.max_length = model_ == "gpt2_tied" ? 32 : 128;  // it has 32 positions
  c.order = forced.order;
  c.activations = forced.activations;
  c.optimizer_window = forced.window;
  c.optimizer_device = forced.optimizer;
  c.memory.nvme_path = (scratch_.path() / "nvme").string();
  c.memory.threads = 2;
  c.memory.host_memory = "1GiB";
  return c;
}

}  // namespace parbuckle
