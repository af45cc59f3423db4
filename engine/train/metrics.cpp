#include "engine/train/metrics.h"

#include <cerrno>
#include <cmath>
#include <cstring>

#include <nlohmann/json.hpp>

namespace parbuckle {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no NaN and no infinity: they are written as null.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

double per_second(double amount, double seconds) {
  return seconds > 0 ? amount / seconds : 0;
}

}  // namespace

std::string to_json_line(const StepRecord& record) {
  Json line;
  line["step"] = record.step;
  line["epoch"] = number(record.epoch);
  line["loss"] = number(record.loss);
  line["grad_norm"] = number(record.grad_norm);
  line["learning_rate"] = record.learning_rate;
  line["tokens"] = record.tokens;
  line["targets"] = record.targets;
  line["num_input_tokens_seen"] = record.num_input_tokens_seen;
  line["step_seconds"] = record.step_seconds;
  line["predicted_step_seconds"] = record.predicted_step_seconds;
  line["nvme_read_bytes"] = record.nvme_read_bytes;
  line["nvme_written_bytes"] = record.nvme_written_bytes;
  line["to_device_bytes"] = record.to_device_bytes;
  line["from_device_bytes"] = record.from_device_bytes;
  line["planned_nvme_read_bytes"] = record.planned_nvme_read_bytes;
  line["planned_nvme_written_bytes"] = record.planned_nvme_written_bytes;
  line["arena_peak_bytes"] = record.arena_peak_bytes;
  Json& traffic = line["traffic"] = Json::object();
  for (const RoleTraffic& role : record.traffic) {
    traffic[role.role] = {{"read", role.read},
                          {"written", role.written},
                          {"planned_read", role.planned_read},
                          {"planned_written", role.planned_written}};
  }
  line["skipped"] = record.skipped;
  return line.dump();
}

std::string to_json_line(const EvalRecord& record) {
  Json line;
  line["step"] = record.step;
  line["eval_loss"] = number(record.eval_loss);
  line["perplexity"] = number(record.perplexity);
  line["eval_targets"] = record.targets;
  line["eval_runtime"] = record.eval_runtime;
  return line.dump();
}

std::string to_json_line(const TrainReport& report) {
  Json line;
  line["train_steps"] = report.steps;
  line["skipped_steps"] = report.skipped_steps;
  line["train_loss"] = number(report.train_loss);
  line["train_runtime"] = report.train_runtime;
  line["train_steps_per_second"] =
      per_second(static_cast<double>(report.steps), report.train_runtime);
  line["tokens_per_second"] = report.tokens_per_second;
  line["planned_step_seconds"] = report.planned_step_seconds;
  line["measured_step_seconds"] = report.measured_step_seconds;
  line["planned_host_bytes"] = report.planned_host_bytes;
  line["measured_peak_rss_bytes"] = report.measured_peak_rss_bytes;
  line["planned_nvme_read_bytes"] = report.planned_nvme_read_bytes;
  line["planned_nvme_written_bytes"] = report.planned_nvme_written_bytes;
  line["nvme_read_bytes"] = report.nvme_read_bytes;
  line["nvme_written_bytes"] = report.nvme_written_bytes;
  line["planned_device_bytes"] = report.planned_device_bytes;
  line["measured_device_bytes"] = report.measured_device_bytes;
  line["planned_to_device_bytes"] = report.planned_to_device_bytes;
  line["planned_from_device_bytes"] = report.planned_from_device_bytes;
  line["to_device_bytes"] = report.to_device_bytes;
  line["from_device_bytes"] = report.from_device_bytes;
  line["planned_arena_bytes"] = report.planned_arena_bytes;
  line["measured_arena_peak_bytes"] = report.measured_arena_peak_bytes;
  line["state_hash"] = report.state_hash;
  return line.dump();
}

std::string to_json(const TrainConfig& config) {
  Json out;
  TrainConfig::visit(config, [&out](const OptionInfo& info, const auto& member) {
    std::string key = info.name;
    for (char& c : key) {
      c = c == '-' ? '_' : c;
    }
    out[key] = member;
  });
  return out.dump(2) + "\n";
}

Result<MetricsFile> MetricsFile::create(const std::filesystem::path& path) {
  MetricsFile file;
  file.path_ = path.string();
  file.file_.reset(std::fopen(file.path_.c_str(), "we"));
  if (file.file_ == nullptr) {
    return io_error(file.path_ + ": cannot be written: " + std::strerror(errno));
  }
  return file;
}

Status MetricsFile::write(const std::string& line) {
  std::fputs(line.c_str(), file_.get());
  std::fputc('\n', file_.get());
  if (std::fflush(file_.get()) != 0) {
    return io_error(path_ + ": cannot be written: " + std::strerror(errno));
  }
  return {};
}

}  // namespace parbuckle
