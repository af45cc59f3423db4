// Data files with one fault each, and the rows of the published fine-tuning reference.
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/data/dataset.h"
#include "tests/engine/data/byte_tokenizer.h"
#include "tests/engine/data/gguf_vocabulary.h"
#include "tests/engine/data/scratch_folder.h"
#include "tests/engine/data/sha256.h"
#include "tests/support/shared_path.h"

namespace parbuckle {
namespace {

TEST(DatasetFixture, BadJsonLinesAreRefusedByLineOrSkippedAndCounted) {
  PARBUCKLE_NEEDS_SHARED("fixtures/bad/jsonl");
  struct Fault {
    const char* name;
    const char* message;
    std::int64_t kept;  // with skipping; -1: refused then too
  };
  const std::vector<Fault> faults = {
      {"broken_line", ":2: ", 2},
      {"broken_last_line", ":2: ", 1},
      {"invalid_utf8", ":2: column 15: byte '\\xff'", 2},
      {"utf16", "UTF-16", -1},
      {"empty", "0 records", -1},
      {"only_blank_lines", "0 records", -1},
      {"field_number", ":2: column 10: the field 'text' is a number", 1},
      {"field_null", ":2: column 10: the field 'text' is null", 1},
      {"field_missing", ":2: expected 'text'", 1},
      {"not_objects", ":1: column 1: expected an object", -1},
      {"json_array", ":1: column 1: a JSON array", -1},
      {"two_on_a_line", ":1: column 19", -1},
      {"duplicate_field", ":1: column 15", -1},
      {"lone_surrogate", ":1: column 12", 1},
      {"deep", ":1: column 10: the field 'text' is an array", 0},
      {"messages_wrong_type", ":1: chat records", -1}};
  const Tokenizer tokenizer = byte_tokenizer();
  for (const Fault& fault : faults) {
    const std::string path =
        shared_file("fixtures/bad/jsonl/" + std::string(fault.name) + ".jsonl").string();
    ASSERT_FALSE(path.empty()) << fault.name;
    DatasetOptions options;
    options.work_directory = std::filesystem::temp_directory_path().string();
    const auto refused = Dataset::open(path, &tokenizer, options);
    ASSERT_FALSE(refused.ok()) << fault.name;
    const std::string message = refused.status().message();
    EXPECT_NE(message.find(fault.message), std::string::npos) << fault.name << ": " << message;
    EXPECT_NE(message.find(path), std::string::npos) << message;
    options.records.skip_broken = true;
    const auto skipped = Dataset::open(path, &tokenizer, options);
    if (fault.kept > 0) {
      ASSERT_TRUE(skipped.ok()) << fault.name << ": " << skipped.status().message();
      EXPECT_EQ(skipped->rows(), fault.kept) << fault.name;
      EXPECT_EQ(skipped->report().read.skipped, 1) << fault.name;
    } else if (fault.kept < 0) {
      EXPECT_FALSE(skipped.ok()) << fault.name;
    }
  }
}

TEST(DatasetFixture, OddButValidJsonLinesAreRead) {
  PARBUCKLE_NEEDS_SHARED("fixtures/bad/jsonl");
  const Tokenizer tokenizer = byte_tokenizer();
  const std::vector<std::pair<std::string, std::int64_t>> valid = {{"byte_order_mark", 2},
                                                                   {"blank_lines", 2},
                                                                   {"crlf", 2},
                                                                   {"no_final_newline", 2},
                                                                   {"field_empty", 2},
                                                                   {"escaped_pair", 1},
                                                                   {"nul", 1}};
  for (const auto& [name, records] : valid) {
    DatasetOptions options;
    options.work_directory = std::filesystem::temp_directory_path().string();
    const std::string path = shared_file("fixtures/bad/jsonl/" + name + ".jsonl").string();
    const auto data = Dataset::open(path, &tokenizer, options);
    ASSERT_TRUE(data.ok()) << name << ": " << data.status().message();
    EXPECT_EQ(data->report().read.records, records) << name;
    EXPECT_EQ(data->report().read.byte_order_mark, name == "byte_order_mark");
    EXPECT_EQ(data->report().read.without_tokens, name == "field_empty" ? 1 : 0);
    EXPECT_EQ(data->rows() + data->report().no_target, records);
    if (name == "nul") {
      EXPECT_EQ((*data->examples(0))[0].ids, (std::vector<std::int32_t>{'a', 0, 'b', end_id}));
    }
  }
}

// $PARBUCKLE_SMOLLM2: a folder with the published SmolLM2-135M-Instruct, as tokenizer.json or as one GGUF file.
Result<Tokenizer> smollm2() {
  const char* folder = std::getenv("PARBUCKLE_SMOLLM2");
  if (folder == nullptr) {
    return Status(Code::not_found, "set PARBUCKLE_SMOLLM2");
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".gguf") {
      return Tokenizer::from_gguf_vocabulary(read_gguf_vocabulary(entry.path().string()));
    }
  }
  return Tokenizer::from_folder(folder);
}

std::string digest(const Dataset& data) {
  Sha256 sha;
  const auto add = [&sha](const std::vector<std::int32_t>& values) {
    sha.add({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int32_t)});
  };
  for (std::int64_t row = 0; row < data.rows(); ++row) {
    const Example example = (*data.examples(row))[0];
    add({static_cast<std::int32_t>(example.ids.size())});
    add(example.ids);
    add(example.labels);
  }
  return sha.hex();
}

DatasetOptions reference_options(std::int64_t rows) {
  DatasetOptions options;
  options.work_directory = std::filesystem::temp_directory_path().string();
  options.max_length = 256;
  options.max_rows = rows;
  options.records.prompt_field = "question";
  options.records.completion_field = "answer";
  options.records.rule.eos_id = 2;
  return options;
}

TEST(DatasetFixture, RowsOfTheFineTuningReferenceAreEqualToTheLastId) {
  PARBUCKLE_NEEDS_SHARED("fixtures/real/finetune_gsm8k.json");
  PARBUCKLE_NEEDS_SHARED("data/gsm8k_train.jsonl");
  const auto tokenizer = smollm2();
  if (!tokenizer.ok() && tokenizer.status().code() == Code::not_found) {
    GTEST_SKIP() << tokenizer.status().message();
  }
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  std::ifstream file(shared_file("fixtures/real/finetune_gsm8k.json"));
  const auto expected = nlohmann::json::parse(file).at("rows");
  const auto train = Dataset::open(
      shared_file("data/gsm8k_train.jsonl").string(), &*tokenizer, reference_options(240));
  ASSERT_TRUE(train.ok()) << train.status().message();
  const auto& first = expected.at("first_ids");
  for (std::size_t row = 0; row < first.size(); ++row) {
    EXPECT_EQ((*train->examples(static_cast<std::int64_t>(row)))[0].ids,
              first[row].get<std::vector<std::int32_t>>());
  }
  EXPECT_EQ(train->report().tokens, expected.at("train_tokens").get<std::int64_t>());
  EXPECT_EQ(train->report().targets, expected.at("train_targets").get<std::int64_t>());
  EXPECT_EQ(digest(*train), expected.at("train_sha256").get<std::string>());
  const auto held_out = Dataset::open(
      shared_file("data/gsm8k_test.jsonl").string(), &*tokenizer, reference_options(200));
  ASSERT_TRUE(held_out.ok()) << held_out.status().message();
  EXPECT_EQ(held_out->report().targets, expected.at("held_out_targets").get<std::int64_t>());
  EXPECT_EQ(digest(*held_out), expected.at("held_out_sha256").get<std::string>());
}

}  // namespace
}  // namespace parbuckle
