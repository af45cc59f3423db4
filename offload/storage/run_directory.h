// The folder that one run holds on a drive: locked while the run lives, removed when it ends, and swept away by the next
// run where its owner died.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "parbuckle/status.h"

namespace parbuckle {

/// "<folder>/parbuckle-<run id>/" with a file `lock` (flock, held) that says format version and process id.
class RunDirectory {
 public:
  /// Removes what dead runs left in `folder`, then makes and locks a directory of its own. `folder` must exist.
  static Result<std::unique_ptr<RunDirectory>> create(const std::filesystem::path& folder);
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;
  RunDirectory(RunDirectory&&) = delete;
  RunDirectory& operator=(RunDirectory&&) = delete;
  /// Removes the directory with everything in it.
  ~RunDirectory();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::string& run_id() const { return run_id_; }
  /// Directories of dead runs that create() removed.
  [[nodiscard]] int swept() const { return swept_; }

 private:
  RunDirectory() = default;

  std::filesystem::path path_;
  std::string run_id_;
  int lock_descriptor_ = -1;
  int swept_ = 0;
};

}  // namespace parbuckle
