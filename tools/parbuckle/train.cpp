#include <cstdio>

#include "parbuckle/trainer.h"
#include "parbuckle/units.h"

#include "tools/parbuckle/arguments.h"
#include "tools/parbuckle/progress.h"
#include "tools/parbuckle/verbs.h"

namespace parbuckle::tool {
namespace {

void print_bytes(const char* what, std::int64_t planned, std::int64_t measured) {
  std::printf(
      "%-15s %-14s %s\n", what, format_size(planned).c_str(), format_size(measured).c_str());
}

void print_report(const TrainReport& report) {
  std::printf("steps %lld (%lld skipped), mean loss %.4f, %s, %.0f tokens/s\n",
              static_cast<long long>(report.steps),
              static_cast<long long>(report.skipped_steps),
              report.train_loss,
              format_seconds(report.train_runtime).c_str(),
              report.tokens_per_second);
  std::printf("                planned        measured\n");
  std::printf("step            %-14s %s\n",
              format_seconds(report.planned_step_seconds).c_str(),
              format_seconds(report.measured_step_seconds).c_str());
  const bool device = report.planned_device_bytes > 0;
  std::printf("memory          %-14s %s (peak resident%s)\n",
              format_size(report.planned_host_bytes).c_str(),
              format_size(report.measured_peak_rss_bytes).c_str(),
              device ? ", an emulated device's memory included" : "");
  if (device) {
    print_bytes("device memory", report.planned_device_bytes, report.measured_device_bytes);
    print_bytes("to device", report.planned_to_device_bytes, report.to_device_bytes);
    print_bytes("from device", report.planned_from_device_bytes, report.from_device_bytes);
  }
  print_bytes("arena", report.planned_arena_bytes, report.measured_arena_peak_bytes);
  print_bytes("nvme read", report.planned_nvme_read_bytes, report.nvme_read_bytes);
  print_bytes("nvme written", report.planned_nvme_written_bytes, report.nvme_written_bytes);
  std::printf("state hash      %s\n", report.state_hash.c_str());
  std::printf("output          %s\n", report.output_dir.c_str());
}

}  // namespace

Status run_train(const Arguments& arguments) {
  PARBUCKLE_ASSIGN(
      const auto config,
      read_config<TrainConfig>("train", "Fine-tunes a model within a memory budget.", arguments));
  if (!config) {
    return {};
  }
  Progress progress(config->logging_steps);
  PARBUCKLE_ASSIGN(const TrainReport report, train(*config, progress));
  print_report(report);
  return {};
}

Status run_plan(const Arguments& arguments) {
  std::string format = "text";
  PARBUCKLE_ASSIGN(const auto config,
                   read_config<TrainConfig>("plan",
                                            "Says what `train` with the same options would do.",
                                            arguments,
                                            {{OptionInfo{"format", "", "text or json"}, &format}}));
  if (!config) {
    return {};
  }
  if (format != "text" && format != "json") {
    return invalid("--format '" + format + "': expected text or json");
  }
  Progress progress(1);
  PARBUCKLE_ASSIGN(const std::string text, plan(*config, format == "json", progress));
  std::fputs(text.c_str(), stdout);
  return {};
}

}  // namespace parbuckle::tool
