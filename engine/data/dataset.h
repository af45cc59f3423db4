// A data set ready to train on. Opening it reads the file once from end to end: every record is checked, tokenised, cut to
// the row length and counted, so that what is wrong is said before the first step and the number of steps is known. The
// token ids go to a temporary file (4 bytes a token, gone when the program ends); memory does not grow with the data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parbuckle/status.h"

#include "engine/data/example.h"
#include "engine/data/file.h"
#include "engine/data/records.h"
#include "engine/data/tokenizer.h"

namespace parbuckle {

/// What becomes of a record with more tokens than a row holds.
enum class LongRecord {
  cut,    // the first max_length tokens
  drop,   // left out
  split,  // several examples of max_length tokens
  error   // the run stops before it starts
};

struct DatasetOptions {
  std::int64_t max_length = 2048;
  bool packing =
      false;  // several examples a row, in file order, as long as the next one fits whole
  LongRecord long_record = LongRecord::cut;  // packed .txt files are always split
  std::int64_t max_rows = 0;                 // 0: all
  std::string work_directory = ".";          // of the temporary files
  RecordOptions records;
};

/// Nothing vanishes uncounted. Of one pass over the file.
struct DataReport {
  RecordCounts read;
  std::int64_t rows = 0;
  std::int64_t examples = 0;
  std::int64_t tokens = 0;
  std::int64_t targets = 0;
  std::int64_t longest = 0;      // tokens of the longest row
  std::int64_t cut = 0;          // records cut to max_length
  std::int64_t dropped = 0;      // records too long, by policy
  std::int64_t split = 0;        // records made into several examples
  std::int64_t tokens_lost = 0;  // by cutting and dropping
  std::int64_t no_target =
      0;  // records (pieces, if split) left out because nothing in them is predicted
};
std::string to_json(const DataReport& report);

class Dataset {
 public:
  /// With `input_ids` records only, `tokenizer` may be null. It is not used after opening.
  static Result<Dataset> open(const std::string& path,
                              const Tokenizer* tokenizer,
                              const DatasetOptions& options);

  struct Row {
    std::int64_t offset = 0;  // in the temporary file of ids
    std::int64_t bytes = 0;
    std::int32_t examples = 0;
    std::int32_t tokens = 0;
    std::int64_t targets = 0;
  };

  [[nodiscard]] std::int64_t rows() const { return report_.rows; }
  [[nodiscard]] const DataReport& report() const { return report_; }
  /// REQUIRES: 0 <= row < rows().
  [[nodiscard]] Result<Row> row(std::int64_t row) const;
  /// The examples of a row, isolated from each other. REQUIRES: 0 <= row < rows().
  [[nodiscard]] Result<std::vector<Example>> examples(std::int64_t row) const;

 private:
  friend class DatasetBuilder;
  Dataset(File ids, File index, DataReport report)
      : ids_(std::move(ids)), index_(std::move(index)), report_(std::move(report)) {}

  File ids_;    // examples one after the other
  File index_;  // Rows
  DataReport report_;
};

}  // namespace parbuckle
