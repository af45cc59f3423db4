#include "tools/parbuckle/progress.h"

#include <array>
#include <cstdio>
#include <unistd.h>

#include "parbuckle/units.h"

namespace parbuckle::tool {

std::string step_line(const StepRecord& record, std::int64_t total_steps, double eta_seconds) {
  std::array<char, 256> text{};
  const double rate =
      record.step_seconds > 0 ? static_cast<double>(record.tokens) / record.step_seconds : 0;
  std::snprintf(text.data(),
                text.size(),
                "step %lld/%lld  loss %.4f  norm %.3f  lr %.2e  %.0f tok/s  %s",
                static_cast<long long>(record.step),
                static_cast<long long>(total_steps),
                record.loss,
                record.grad_norm,
                record.learning_rate,
                rate,
                format_seconds(record.step_seconds).c_str());
  std::string line = text.data();
  if (record.nvme_read_bytes + record.nvme_written_bytes > 0) {
    line += "  read " + format_size(record.nvme_read_bytes) + "  written " +
            format_size(record.nvme_written_bytes);
  }
  if (record.skipped) {
    line += "  SKIPPED";
  }
  return line + "  eta " + format_seconds(eta_seconds);
}

Progress::Progress(std::int64_t logging_steps)
    : logging_steps_(logging_steps), terminal_(::isatty(STDERR_FILENO) == 1) {
}

Progress::~Progress() {
  end_live_line();
}

void Progress::end_live_line() {
  if (live_) {
    std::fputc('\n', stderr);
    live_ = false;
  }
}

void Progress::on_note(std::string_view line) {
  end_live_line();
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

void Progress::on_plan(std::string_view text) {
  end_live_line();
  std::fwrite(text.data(), 1, text.size(), stderr);
  if (text.empty() || text.back() != '\n') {
    std::fputc('\n', stderr);
  }
}

void Progress::on_step(const StepRecord& record, std::int64_t total_steps) {
  constexpr double memory = 0.8;  // of the moving average that the estimate of the end rests on
  seconds_per_step_ = seconds_per_step_ == 0
                          ? record.step_seconds
                          : memory * seconds_per_step_ + (1 - memory) * record.step_seconds;
  const bool due = record.step % logging_steps_ == 0 || record.step == 1 ||
                   record.step == total_steps || record.skipped;
  if (!terminal_ && !due) {
    return;
  }
  const std::string line = step_line(
      record, total_steps, seconds_per_step_ * static_cast<double>(total_steps - record.step));
  if (!terminal_) {
    std::fprintf(stderr, "%s\n", line.c_str());
    return;
  }
  std::fprintf(stderr, "\r\x1b[K%s", line.c_str());
  std::fflush(stderr);
  live_ = true;
  if (due) {
    end_live_line();
  }
}

void Progress::on_eval(const EvalRecord& record) {
  end_live_line();
  std::fprintf(stderr,
               "eval at step %lld: loss %.4f  perplexity %.4f  (%lld targets, %s)\n",
               static_cast<long long>(record.step),
               record.eval_loss,
               record.perplexity,
               static_cast<long long>(record.targets),
               format_seconds(record.eval_runtime).c_str());
}

}  // namespace parbuckle::tool
