// What a run leaves behind in its output folder beside the model: metrics.jsonl (a record per step and evaluation, the last
// one a summary) and parbuckle_config.json (the resolved configuration).
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "parbuckle/config.h"
#include "parbuckle/status.h"
#include "parbuckle/trainer.h"

namespace parbuckle {

std::string to_json_line(const StepRecord& record);
std::string to_json_line(const EvalRecord& record);
std::string to_json_line(const TrainReport& report);
/// Every option with its value, defaults filled in.
std::string to_json(const TrainConfig& config);

/// Appends lines to a file; each reaches the operating system before write() returns.
class MetricsFile {
 public:
  static Result<MetricsFile> create(const std::filesystem::path& path);
  Status write(const std::string& line);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  std::string path_;
};

}  // namespace parbuckle
