// The records of a data file, one after the other, each already turned into an example.
//
// .jsonl (also .json, .ndjson): one JSON object a line. `text`; or `prompt` and `completion`, or two other fields that the
// options name; or `input_ids` with or without `labels`, which need no tokenizer. Blank lines are skipped.
// .txt: the documents of the file, separated by blank lines. When rows are packed the whole file is one document, its
// blank lines included; it is then held in memory while it is tokenised (about three times its size), so --packing takes
// .txt files up to 256 MiB.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parbuckle/status.h"
#include "parbuckle/units.h"

#include "engine/data/example.h"
#include "engine/data/json_line.h"
#include "engine/data/line_scanner.h"

namespace parbuckle {

inline constexpr std::int64_t longest_record = 256 * mib;

struct RecordOptions {
  std::string prompt_field;  // both or none
  std::string completion_field;
  bool replace_invalid = false;  // text without a UTF-8 form becomes U+FFFD, counted
  bool skip_broken = false;      // leave out records that cannot be read, counted
  bool whole_file = false;       // .txt: one document
  std::int64_t vocab_rows = 0;   // `input_ids` must be below; 0: not checked
  std::int64_t record_limit = longest_record;
  ExampleRule rule;
};

struct RecordCounts {
  std::int64_t records = 0;  // read, whatever became of them
  std::int64_t skipped = 0;
  std::int64_t replaced = 0;        // U+FFFD put in
  std::int64_t lost_bytes = 0;      // bytes that no token covers
  std::int64_t without_tokens = 0;  // records whose text gave no token at all
  std::int64_t start_token_twice =
      0;  // the text begins with the token that the template adds as well
  bool byte_order_mark = false;
  std::string first_skipped;  // why, with its line
};

class RecordReader {
 public:
  /// `tokenizer` may be null where all records hold `input_ids`; else it must outlive the reader.
  static Result<RecordReader> open(const std::string& path,
                                   const Tokenizer* tokenizer,
                                   RecordOptions options);

  struct Record {
    Example example;
    bool pre_tokenized = false;
  };
  /// nullopt at the end. The message of a failure begins with file and line.
  Result<std::optional<Record>> next();
  [[nodiscard]] const RecordCounts& counts() const { return counts_; }

 private:
  RecordReader(std::string path, LineScanner scanner)
      : path_(std::move(path)), lines_(std::move(scanner)) {}

  struct Range {
    std::int64_t line = 0;
    std::int64_t begin = 0;
    std::int64_t bytes = 0;
  };
  Result<std::optional<Range>> next_line();
  Result<std::optional<Range>> next_document();
  Result<std::optional<Range>> whole_document();
  Result<Record> parse(const Range& range);
  Result<Record> parse_json(const Range& range);
  Result<Record> parse_text(const Range& range);
  Result<Record> from_ids(JsonRecord& json) const;
  Result<Example> from_text(std::string_view text);
  [[nodiscard]] Status no_known_field(const JsonRecord& json) const;
  Status need_tokenizer() const;
  [[nodiscard]] Status at(std::int64_t line, const Status& fault) const;

  std::string path_;
  LineScanner lines_;
  RecordOptions options_;
  bool json_ = false;
  bool whole_done_ = false;
  const Tokenizer* tokenizer_ = nullptr;
  std::optional<ExampleMaker> maker_;
  JsonFields fields_;
  RecordCounts counts_;
  std::string buffer_;
};

}  // namespace parbuckle
