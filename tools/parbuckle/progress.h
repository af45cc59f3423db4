// What a run shows while it goes: a live line on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "parbuckle/trainer.h"

namespace parbuckle::tool {

class Progress : public Observer {
 public:
  explicit Progress(std::int64_t logging_steps);
  ~Progress() override;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  Progress(Progress&&) = delete;
  Progress& operator=(Progress&&) = delete;

  void on_note(std::string_view line) override;
  void on_plan(std::string_view text) override;
  void on_step(const StepRecord& record, std::int64_t total_steps) override;
  void on_eval(const EvalRecord& record) override;

 private:
  void end_live_line();

  std::int64_t logging_steps_;
  bool terminal_;
  bool live_ = false;  // a live line stands on the terminal
  double seconds_per_step_ = 0;
};

/// "step 12/60  loss 0.9376  norm 3.09  lr 2.00e-05  410 tok/s  read 1.1 GiB  written 0.8 GiB  eta 2 min 05 s"
std::string step_line(const StepRecord& record, std::int64_t total_steps, double eta_seconds);

}  // namespace parbuckle::tool
