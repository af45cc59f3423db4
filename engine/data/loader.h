// Cuts a data set into steps. Everything follows from the options and a cursor of three numbers: a run can be resumed at
// any step, and any step can be asked for again.
//
// Epochs as transformers counts them: an epoch has ceil(rows / batch_rows) micro-batches and ceil(that / accumulation)
// steps; its last micro-batch and its last step may be smaller. epochs may be a fraction; max_steps, where given, counts
// instead and goes through the data as often as it takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parbuckle/status.h"

#include "engine/data/batch.h"
#include "engine/data/dataset.h"

namespace parbuckle {

struct LoaderOptions {
  std::int64_t batch_rows = 1;    // rows of the data set in a micro-batch
  std::int64_t accumulation = 1;  // micro-batches of a step
  double epochs = 1;
  std::int64_t max_steps = -1;  // -1: from epochs
  bool shuffle = true;          // another order in every epoch; else the order of the file
  std::uint64_t seed = 42;
};

/// Where the data stands: the next step takes the rows of `epoch` from `position` on.
struct DataCursor {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t position = 0;  // in the epoch's order
  friend bool operator==(const DataCursor&, const DataCursor&) = default;
};
std::string to_json(const DataCursor& cursor);
Result<DataCursor> data_cursor_from_json(std::string_view text);

class Loader {
 public:
  /// `data` must outlive the loader.
  static Result<Loader> create(const Dataset& data, const LoaderOptions& options);

  [[nodiscard]] std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  [[nodiscard]] std::int64_t total_steps() const { return total_steps_; }
  [[nodiscard]] const DataCursor& cursor() const { return cursor_; }

  /// Goes to a cursor of an earlier run. Fails where it is none of this data set with these options.
  Status seek(const DataCursor& cursor);

  /// nullopt after the last step. Moves the cursor.
  Result<std::optional<StepBatch>> next();

  /// The row counts (multiples of row_multiple) that micro-batches of this run can have, ascending. Exact where the run
  /// has at most a million rows, else all up to the largest possible.
  [[nodiscard]] Result<std::vector<std::int64_t>> micro_batch_rows() const;

 private:
  Loader(const Dataset& data, const LoaderOptions& options) : data_(&data), options_(options) {}
  [[nodiscard]] std::int64_t micro_batches_per_epoch() const;
  Result<MicroBatch> micro_batch(std::int64_t epoch, std::int64_t first, std::int64_t count) const;
  Result<std::vector<std::int64_t>> exact_rows() const;

  const Dataset* data_;
  LoaderOptions options_;
  std::int64_t steps_per_epoch_ = 0;
  std::int64_t total_steps_ = 0;
  DataCursor cursor_;
};

}  // namespace parbuckle
