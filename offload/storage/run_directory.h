// The folder that one run holds on a drive. It is locked while the run lives. One made by create() serves its process alone: it
// is removed at the end, and swept away by the next run where its owner died. One made by create_kept() holds what survives: it
// belongs to another file, its *owner*, for as long as that file names it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "parbuckle/status.h"

#include "offload/storage/file_lock.h"

namespace parbuckle {

/// A directory of a run that is not alive, and that its owner still names.
struct LeftOver {
  std::filesystem::path path;
  std::filesystem::path owner;
  std::int64_t bytes = 0;  // on the drive
};

/// "<folder>/parbuckle-<run id>/" with a file `lock` (flock, held) that says process id, and where it is kept `owner`.
class RunDirectory {
 public:
  /// Removes what dead runs left in `folder` and nobody owns, then makes and locks a directory of its own. `folder` must
  /// exist.
  static Result<std::unique_ptr<RunDirectory>> create(const std::filesystem::path& folder);
  /// The same for one that stays. `owner` is a file, made later, whose whole text is the path of the directory.
  static Result<std::unique_ptr<RunDirectory>> create_kept(const std::filesystem::path& folder,
                                                           const std::filesystem::path& owner);
  /// One that an earlier process made. Refused, with the id of the process, where another one holds it.
  static Result<std::unique_ptr<RunDirectory>> open(const std::filesystem::path& path);

  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;
  RunDirectory(RunDirectory&&) = delete;
  RunDirectory& operator=(RunDirectory&&) = delete;
  /// Removes the directory with everything in it, unless it is kept.
  ~RunDirectory();

  /// From now on it is removed at the end.
  void release() { kept_ = false; }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::string& run_id() const { return run_id_; }
  /// Directories of dead runs that create() removed.
  [[nodiscard]] int swept() const { return swept_; }
  /// Those that it left.
  [[nodiscard]] const std::vector<LeftOver>& left_over() const { return left_over_; }

 private:
  RunDirectory() = default;
  void sweep(const std::filesystem::path& folder);

  std::filesystem::path path_;
  std::string run_id_;
  FileLock lock_;
  bool kept_ = false;
  int swept_ = 0;
  std::vector<LeftOver> left_over_;
};

/// The text of a small file without the end of its line; empty where there is none.
std::string first_line(const std::filesystem::path& path);

}  // namespace parbuckle
