#include "engine/data/dataset.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

namespace parbuckle {
namespace {

/// In front of the ids of an example.
struct ExampleHeader {
  std::int32_t tokens = 0;
  std::int32_t masked =
      0;  // so many labels at the start are no_label, the others are the ids; -1: labels follow
  std::int64_t line = 0;
};

constexpr std::int64_t write_bytes = 256 * kib;

template <class T>
std::span<const char> bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

std::span<const char> bytes_of_ids(const std::vector<std::int32_t>& ids) {
  return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(std::int32_t)};
}

std::int32_t masked_prefix(const Example& example) {
  std::size_t masked = 0;
  while (masked < example.labels.size() && example.labels[masked] == no_label) {
    ++masked;
  }
  const bool plain = std::equal(example.labels.begin() + static_cast<std::ptrdiff_t>(masked),
                                example.labels.end(),
                                example.ids.begin() + static_cast<std::ptrdiff_t>(masked));
  return plain ? static_cast<std::int32_t>(masked) : -1;
}

Example part_of(const Example& example, std::size_t begin, std::size_t end) {
  const auto at = [](const std::vector<std::int32_t>& from, std::size_t i) {
    return from.begin() + static_cast<std::ptrdiff_t>(i);
  };
  return {.ids = {at(example.ids, begin), at(example.ids, end)},
          .labels = {at(example.labels, begin), at(example.labels, end)},
          .line = example.line};
}

}  // namespace

class DatasetBuilder {
 public:
  DatasetBuilder(std::string path, const DatasetOptions& options, File ids, File index)
      : path_(std::move(path)),
        options_(&options),
        max_length_(static_cast<std::size_t>(options.max_length)),
        dataset_(std::move(ids), std::move(index), {}) {}

  Result<Dataset> run(const Tokenizer* tokenizer) {
    RecordOptions records = options_->records;
    records.whole_file = options_->packing;
    split_ = options_->long_record == LongRecord::split ||
             (options_->packing && std::filesystem::path(path_).extension() == ".txt");
    if (!split_) {
      records.rule.most_tokens = options_->max_length;
    }
    PARBUCKLE_ASSIGN(RecordReader reader, RecordReader::open(path_, tokenizer, records));
    while (!full()) {
      PARBUCKLE_ASSIGN(auto record, reader.next());
      if (!record) {
        break;
      }
      PARBUCKLE_TRY(add(*record));
    }
    PARBUCKLE_TRY(end_row());
    PARBUCKLE_TRY(flush());
    report().read = reader.counts();
    PARBUCKLE_TRY(check_not_empty());
    return std::move(dataset_);
  }

 private:
  DataReport& report() { return dataset_.report_; }
  [[nodiscard]] bool full() {
    return options_->max_rows > 0 && report().rows >= options_->max_rows;
  }

  Status check_not_empty() {
    const DataReport& found = report();
    if (found.rows > 0) {
      return {};
    }
    const std::int64_t read = found.read.records;
    const std::string of = " of " + std::to_string(read) + " ";
    if (found.no_target > 0) {
      return invalid(path_ + ": nothing to train on: " + std::to_string(found.no_target) + of +
                     "have no target within --max-length " + std::to_string(max_length_));
    }
    if (read > 0) {
      return invalid(path_ + ": nothing to train on: " + std::to_string(found.read.skipped) + of +
                     "cannot be read, " + std::to_string(found.dropped) + of + "are too long" +
                     (found.read.skipped > 0 ? "; first: " + found.read.first_skipped : ""));
    }
    return invalid(path_ + ": 0 records");
  }

  Status add(const RecordReader::Record& record) {
    const Example& example = record.example;
    const std::size_t length = example.ids.size() + static_cast<std::size_t>(example.left_out);
    const bool pre_tokenized = record.pre_tokenized;
    if (length <= max_length_) {
      return keep(example, pre_tokenized);
    }
    if (split_) {
      ++report().split;
      for (std::size_t begin = 0; begin < length && !full(); begin += max_length_) {
        const std::size_t end = std::min(begin + max_length_, length);
        PARBUCKLE_TRY(keep(part_of(example, begin, end), pre_tokenized));
      }
      return {};
    }
    return add_long(example, pre_tokenized);
  }

  Status add_long(const Example& example, bool pre_tokenized) {
    const std::int64_t length = static_cast<std::int64_t>(example.ids.size()) + example.left_out;
    switch (options_->long_record) {
      case LongRecord::error:
        return invalid(path_ + ":" + std::to_string(example.line) + ": the record has " +
                       std::to_string(length) + " tokens; --max-length is " +
                       std::to_string(max_length_));
      case LongRecord::drop:
        ++report().dropped;
        report().tokens_lost += length;
        return {};
      case LongRecord::cut:
      case LongRecord::split:
        break;
    }
    ++report().cut;
    report().tokens_lost += length - options_->max_length;
    return keep(part_of(example, 0, max_length_), pre_tokenized);
  }

  /// Records that came as ids are kept as they are: a window without targets is the trainer's to count.
  Status keep(const Example& example, bool pre_tokenized) {
    const std::int64_t targets = count_targets(example);
    if (example.ids.empty() || (targets == 0 && !pre_tokenized)) {
      ++report().no_target;
      return {};
    }
    const auto tokens = static_cast<std::int32_t>(example.ids.size());
    const std::int64_t together = std::int64_t{row_.tokens} + tokens;
    if (row_.examples > 0 && (!options_->packing || together > options_->max_length)) {
      PARBUCKLE_TRY(end_row());
      if (full()) {
        return {};
      }
    }
    ++row_.examples;
    row_.tokens += tokens;
    row_.targets += targets;
    return write(example);
  }

  Status write(const Example& example) {
    const ExampleHeader header{
        static_cast<std::int32_t>(example.ids.size()), masked_prefix(example), example.line};
    put(bytes_of(header));
    put(bytes_of_ids(example.ids));
    if (header.masked < 0) {
      put(bytes_of_ids(example.labels));
    }
    return static_cast<std::int64_t>(pending_.size()) < write_bytes ? Status() : flush();
  }

  void put(std::span<const char> bytes) {
    pending_.append(bytes.data(), bytes.size());
    row_.bytes += static_cast<std::int64_t>(bytes.size());
  }

  Status end_row() {
    if (row_.examples == 0) {
      return {};
    }
    DataReport& total = report();
    ++total.rows;
    total.examples += row_.examples;
    total.tokens += row_.tokens;
    total.targets += row_.targets;
    total.longest = std::max<std::int64_t>(total.longest, row_.tokens);
    pending_index_.append(bytes_of(row_).data(), sizeof(row_));
    row_ = {.offset = row_.offset + row_.bytes};
    return {};
  }

  Status flush() {
    PARBUCKLE_TRY(dataset_.ids_.append(pending_));
    PARBUCKLE_TRY(dataset_.index_.append(pending_index_));
    std::string().swap(pending_);
    pending_index_.clear();
    return {};
  }

  std::string path_;
  const DatasetOptions* options_;
  std::size_t max_length_;
  bool split_ = false;
  Dataset dataset_;
  Dataset::Row row_;  // being filled
  std::string pending_;
  std::string pending_index_;
};

Result<Dataset> Dataset::open(const std::string& path,
                              const Tokenizer* tokenizer,
                              const DatasetOptions& options) {
  constexpr std::int64_t longest_row = std::int64_t{1} << 30U;
  if (options.max_length < 2 || options.max_length > longest_row) {
    return invalid("--max-length: found " + std::to_string(options.max_length) +
                   ", allowed are 2 to " + std::to_string(longest_row));
  }
  PARBUCKLE_ASSIGN(File ids, File::temporary(options.work_directory));
  PARBUCKLE_ASSIGN(File index, File::temporary(options.work_directory));
  return DatasetBuilder(path, options, std::move(ids), std::move(index)).run(tokenizer);
}

Result<Dataset::Row> Dataset::row(std::int64_t row) const {
  Row found;
  const std::span<char> to(reinterpret_cast<char*>(&found), sizeof(found));
  PARBUCKLE_ASSIGN(const std::int64_t got,
                   index_.read(row * static_cast<std::int64_t>(sizeof(Row)), to));
  if (got != static_cast<std::int64_t>(sizeof(Row))) {
    return internal_error("the row index ends before row " + std::to_string(row));
  }
  return found;
}

Result<std::vector<Example>> Dataset::examples(std::int64_t row) const {
  PARBUCKLE_ASSIGN(const Row found, this->row(row));
  std::string bytes(static_cast<std::size_t>(found.bytes), '\0');
  PARBUCKLE_ASSIGN(const std::int64_t got, ids_.read(found.offset, bytes));
  if (got != found.bytes) {
    return internal_error("the file of ids ends inside row " + std::to_string(row));
  }
  ids_.drop_cached(found.offset, found.bytes);
  std::vector<Example> out;
  const char* at = bytes.data();
  const auto take = [&at](std::vector<std::int32_t>& to, std::int32_t count) {
    to.resize(static_cast<std::size_t>(count));
    std::copy_n(at, to.size() * sizeof(std::int32_t), reinterpret_cast<char*>(to.data()));
    at += to.size() * sizeof(std::int32_t);
  };
  for (std::int32_t i = 0; i < found.examples; ++i) {
    ExampleHeader header;
    std::copy_n(at, sizeof(header), reinterpret_cast<char*>(&header));
    at += sizeof(header);
    Example& example = out.emplace_back();
    example.line = header.line;
    take(example.ids, header.tokens);
    if (header.masked < 0) {
      take(example.labels, header.tokens);
    } else {
      example.labels = example.ids;
      std::fill_n(example.labels.begin(), header.masked, no_label);
    }
  }
  return out;
}

std::string to_json(const DataReport& report) {
  nlohmann::ordered_json json = {{"records", report.read.records},
                                 {"rows", report.rows},
                                 {"examples", report.examples},
                                 {"tokens", report.tokens},
                                 {"targets", report.targets},
                                 {"longest_row", report.longest},
                                 {"cut", report.cut},
                                 {"split", report.split},
                                 {"dropped", report.dropped},
                                 {"tokens_lost", report.tokens_lost},
                                 {"no_target", report.no_target},
                                 {"without_tokens", report.read.without_tokens},
                                 {"skipped", report.read.skipped},
                                 {"first_skipped", report.read.first_skipped},
                                 {"replaced", report.read.replaced},
                                 {"lost_bytes", report.read.lost_bytes},
                                 {"start_token_twice", report.read.start_token_twice},
                                 {"byte_order_mark", report.read.byte_order_mark}};
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace parbuckle
