#include "engine/data/records.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "engine/data/shown.h"
#include "engine/data/utf8.h"

namespace parbuckle {
namespace {

// Positions in JsonFields::texts and ::integers.
enum TextField : std::size_t { text_field, prompt_field, completion_field };
enum IntegerField : std::size_t { ids_field, labels_field };

Result<bool> is_json(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".jsonl" || extension == ".json" || extension == ".ndjson") {
    return true;
  }
  if (extension == ".txt") {
    return false;
  }
  return unsupported(path +
                     ": data files are .jsonl (also .json, .ndjson: one object a line) or "
                     ".txt, not " +
                     shown(extension));
}

/// What stands in a buffer that was grown for one long record is given back.
void keep_small(std::string& buffer) {
  if (buffer.capacity() > static_cast<std::size_t>(mib)) {
    std::string().swap(buffer);
  }
}

}  // namespace

Result<RecordReader> RecordReader::open(const std::string& path,
                                        const Tokenizer* tokenizer,
                                        RecordOptions options) {
  if (options.prompt_field.empty() != options.completion_field.empty()) {
    return invalid("--prompt-field and --completion-field are given together or not at all");
  }
  PARBUCKLE_ASSIGN(const bool json, is_json(path));
  PARBUCKLE_ASSIGN(LineScanner scanner, LineScanner::open(path));
  RecordReader reader(path, std::move(scanner));
  reader.json_ = json;
  reader.counts_.byte_order_mark = reader.lines_.has_byte_order_mark();
  reader.tokenizer_ = tokenizer;
  const bool named = !options.prompt_field.empty();
  if (!options.rule.prompt_suffix) {
    options.rule.prompt_suffix = named ? "\n" : "";
  }
  if (tokenizer != nullptr) {
    reader.maker_.emplace(*tokenizer, options.rule);
  }
  reader.fields_.texts = {"text",
                          named ? options.prompt_field : "prompt",
                          named ? options.completion_field : "completion"};
  reader.fields_.integers = {"input_ids", "labels"};
  if (named) {  // the other fields of such a record are the user's own and mean nothing here
    reader.fields_.texts[text_field].clear();
    reader.fields_.integers.clear();
  }
  reader.fields_.replace_invalid = options.replace_invalid;
  reader.options_ = std::move(options);
  return reader;
}

Status RecordReader::at(std::int64_t line, const Status& fault) const {
  return Status(fault.code(), path_ + ":" + std::to_string(line) + ": " + fault.message());
}

Result<std::optional<RecordReader::Range>> RecordReader::next_line() {
  while (true) {
    PARBUCKLE_ASSIGN(const auto line, lines_.next());
    if (!line) {
      return std::optional<Range>();
    }
    if (!line->blank) {
      return std::optional(Range{line->number, line->begin, line->bytes});
    }
  }
}

Result<std::optional<RecordReader::Range>> RecordReader::next_document() {
  PARBUCKLE_ASSIGN(std::optional<Range> document, next_line());
  while (document) {
    PARBUCKLE_ASSIGN(const auto line, lines_.next());
    if (!line || line->blank) {
      break;
    }
    document->bytes = line->begin + line->bytes - document->begin;
  }
  return document;
}

Result<std::optional<RecordReader::Range>> RecordReader::whole_document() {
  const Range all{1, lines_.begin(), lines_.end() - lines_.begin()};
  if (std::exchange(whole_done_, true) || all.bytes == 0) {
    return std::optional<Range>();
  }
  return std::optional(all);
}

Result<std::optional<RecordReader::Record>> RecordReader::next() {
  while (true) {
    std::optional<Range> range;
    if (json_) {
      PARBUCKLE_ASSIGN(range, next_line());
    } else if (options_.whole_file) {
      PARBUCKLE_ASSIGN(range, whole_document());
    } else {
      PARBUCKLE_ASSIGN(range, next_document());
    }
    if (!range) {
      return std::optional<Record>();
    }
    ++counts_.records;
    Result<Record> record = parse(*range);
    if (record.ok()) {
      counts_.lost_bytes = maker_ ? maker_->lost_bytes() : 0;
      counts_.without_tokens = maker_ ? maker_->without_tokens() : 0;
      record->example.line = range->line;
      return std::optional(std::move(*record));
    }
    const Status fault = at(range->line, record.status());
    if (!options_.skip_broken || fault.code() == Code::io_error) {
      return fault;
    }
    if (counts_.skipped == 0) {
      counts_.first_skipped = fault.message();
    }
    ++counts_.skipped;
  }
}

Result<RecordReader::Record> RecordReader::parse(const Range& range) {
  if (range.bytes > options_.record_limit) {
    return invalid("the record has " + std::to_string(range.bytes) + " bytes; at most " +
                   std::to_string(options_.record_limit) + " are read");
  }
  keep_small(buffer_);
  PARBUCKLE_TRY(lines_.read(range.begin, range.bytes, buffer_));
  return json_ ? parse_json(range) : parse_text(range);
}

Status RecordReader::need_tokenizer() const {
  if (!maker_) {
    return invalid("the record holds text, and there is no tokenizer beside the model");
  }
  return {};
}

Result<Example> RecordReader::from_text(std::string_view text) {
  PARBUCKLE_TRY(need_tokenizer());
  PARBUCKLE_ASSIGN(Example example, maker_->from_text(text));
  const auto prefix = tokenizer_->prefix();
  if (options_.rule.add_special_tokens && !prefix.empty() && example.ids.size() > prefix.size() &&
      example.ids[prefix.size()] == prefix.front()) {
    ++counts_.start_token_twice;
  }
  return example;
}

Result<RecordReader::Record> RecordReader::parse_text(const Range& /*range*/) {
  const std::size_t bad = find_invalid_utf8(buffer_);
  if (bad == std::string::npos) {
    PARBUCKLE_ASSIGN(Example example, from_text(buffer_));
    return Record{.example = std::move(example), .pre_tokenized = false};
  }
  if (!options_.replace_invalid) {
    const auto feeds =
        std::count(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(bad), '\n');
    return invalid("byte " + shown(std::string_view(buffer_).substr(bad, 1)) +
                   " is not UTF-8 (byte " + std::to_string(bad + 1) + " of this document, " +
                   std::to_string(feeds) + " lines further on)");
  }
  for (std::size_t from = bad; from < buffer_.size();) {
    const std::size_t next = find_invalid_utf8(std::string_view(buffer_).substr(from));
    if (next == std::string::npos) {
      break;
    }
    ++counts_.replaced;
    from += next;
    from += invalid_utf8_bytes(buffer_, from);
  }
  PARBUCKLE_ASSIGN(Example example, from_text(lossy_utf8(buffer_)));
  return Record{.example = std::move(example), .pre_tokenized = false};
}

Status RecordReader::no_known_field(const JsonRecord& json) const {
  std::string found;
  for (const std::string& key : json.keys) {
    found += (found.empty() ? "" : ", ") + shown(key);
  }
  found = found.empty() ? "no fields" : "the fields " + found;
  if (std::find(json.keys.begin(), json.keys.end(), "messages") != json.keys.end()) {
    return unsupported("chat records ('messages') are not supported; found " + found);
  }
  const bool named = !options_.prompt_field.empty();
  return invalid(
      "expected " +
      (named ? shown(fields_.texts[prompt_field]) + " and " + shown(fields_.texts[completion_field])
             : "'text', or 'prompt' and 'completion', or 'input_ids'") +
      ", found " + found);
}

Result<RecordReader::Record> RecordReader::from_ids(JsonRecord& json) const {
  Record record{.pre_tokenized = true};
  Example& example = record.example;
  example.ids = std::move(*json.integers[ids_field]);
  const bool labelled = json.integers[labels_field].has_value();
  example.labels = labelled ? std::move(*json.integers[labels_field]) : example.ids;
  if (example.labels.size() != example.ids.size()) {
    return invalid("'labels' has " + std::to_string(example.labels.size()) +
                   " numbers, 'input_ids' " + std::to_string(example.ids.size()));
  }
  const std::int64_t rows = options_.vocab_rows > 0 ? options_.vocab_rows : std::int64_t{1} << 31U;
  const std::string allowed = "allowed are 0 to " + std::to_string(rows - 1);
  for (std::size_t i = 0; i < example.ids.size(); ++i) {
    if (example.ids[i] < 0 || example.ids[i] >= rows) {
      return invalid("input_ids[" + std::to_string(i) + "] is " + std::to_string(example.ids[i]) +
                     "; " + allowed);
    }
    const std::int32_t label = example.labels[i];
    if (label != no_label && (label < 0 || label >= rows)) {
      return invalid("labels[" + std::to_string(i) + "] is " + std::to_string(label) + "; " +
                     allowed + ", and -100 for no target");
    }
  }
  return record;
}

Result<RecordReader::Record> RecordReader::parse_json(const Range& /*range*/) {
  PARBUCKLE_ASSIGN(JsonRecord json, read_json_record(buffer_, fields_));
  keep_small(buffer_);
  counts_.replaced += json.replaced;
  const bool text = json.texts[text_field].has_value();
  const bool pair =
      json.texts[prompt_field].has_value() && json.texts[completion_field].has_value();
  const bool ids = !json.integers.empty() && json.integers[ids_field].has_value();
  if ((text && pair) || (text && ids) || (pair && ids)) {
    return invalid(
        "the record holds more than one of 'text', 'prompt' with 'completion', and "
        "'input_ids'; say which with --prompt-field and --completion-field");
  }
  if (ids) {
    return from_ids(json);
  }
  if (!text && !pair) {
    return no_known_field(json);
  }
  PARBUCKLE_TRY(need_tokenizer());
  if (text) {
    PARBUCKLE_ASSIGN(Example example, from_text(*json.texts[text_field]));
    return Record{.example = std::move(example), .pre_tokenized = false};
  }
  PARBUCKLE_ASSIGN(Example example,
                   maker_->from_pair(*json.texts[prompt_field], *json.texts[completion_field]));
  return Record{.example = std::move(example), .pre_tokenized = false};
}

}  // namespace parbuckle
