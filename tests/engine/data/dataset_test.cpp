#include "engine/data/dataset.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/data/byte_tokenizer.h"
#include "tests/engine/data/scratch_folder.h"

namespace parbuckle {
namespace {

using Ids = std::vector<std::int32_t>;

class DatasetTest : public testing::Test {
 protected:
  DatasetOptions options() const {
    DatasetOptions out;
    out.work_directory = folder_.path();
    return out;
  }
  Result<Dataset> open(const std::string& name,
                       const std::string& content,
                       const DatasetOptions& with) {
    return Dataset::open(folder_.write(name, content), &tokenizer_, with);
  }
  Result<Dataset> open(const std::string& name, const std::string& content) {
    return open(name, content, options());
  }
  static std::vector<Example> all(const Dataset& data) {
    std::vector<Example> out;
    for (std::int64_t row = 0; row < data.rows(); ++row) {
      const std::vector<Example> examples = *data.examples(row);
      for (const Example& example : examples) {
        out.push_back(example);
      }
    }
    return out;
  }

  ScratchFolder folder_;
  Tokenizer tokenizer_ = byte_tokenizer();
};

TEST_F(DatasetTest, TextRecordsEndWithTheEndTokenAndAllTokensAreLabels) {
  const auto data = open("d.jsonl", "{\"text\": \"ab\"}\n\n{\"x\": [1, {}], \"text\": \"c\"}");
  ASSERT_TRUE(data.ok()) << data.status().message();
  const auto examples = all(*data);
  ASSERT_EQ(examples.size(), 2U);
  EXPECT_EQ(examples[0], (Example{{'a', 'b', end_id}, {'a', 'b', end_id}, 1}));
  EXPECT_EQ(examples[1], (Example{{'c', end_id}, {'c', end_id}, 3}));
  EXPECT_EQ(data->report().targets, 3);
}

TEST_F(DatasetTest, PromptsAreMaskedAndTheEndTokenIsATarget) {
  const std::string line = "{\"prompt\": \"ab\", \"completion\": \"c\"}\n";
  const auto data = open("d.jsonl", line);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(all(*data)[0],
            (Example{{'a', 'b', 'c', end_id}, {no_label, no_label, 'c', end_id}, 1}));
  EXPECT_EQ(data->report().targets, 2);
  DatasetOptions with = options();
  with.records.rule.train_on_prompt = true;
  EXPECT_EQ(open("d.jsonl", line, with)->report().targets, 3);
}

TEST_F(DatasetTest, NamedFieldsAndSuffix) {
  DatasetOptions with = options();
  with.records.prompt_field = "question";
  with.records.completion_field = "answer";
  const auto data =
      open("d.jsonl", "{\"text\": 3, \"question\": \"q\", \"answer\": \"a\"}\n", with);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(all(*data)[0],
            (Example{{'q', '\n', 'a', end_id}, {no_label, no_label, 'a', end_id}, 1}));
  with.records.rule.prompt_suffix = "";
  EXPECT_EQ(all(*open("d.jsonl", "{\"question\": \"q\", \"answer\": \"a\"}\n", with))[0].ids,
            (Ids{'q', 'a', end_id}));
}

TEST_F(DatasetTest, PreTokenizedRecordsAreKeptAsTheyAre) {
  const auto path = folder_.write("d.jsonl",
                                  "{\"input_ids\": [1, 2, 3], \"labels\": [-100, 9, 3]}\n"
                                  "{\"input_ids\": [4, 5]}\n"
                                  "{\"input_ids\": [4, 5], \"labels\": [-100, -100]}\n");
  const auto data = Dataset::open(path, nullptr, options());
  ASSERT_TRUE(data.ok()) << data.status().message();
  const auto examples = all(*data);
  ASSERT_EQ(examples.size(), 3U);
  EXPECT_EQ(examples[0], (Example{{1, 2, 3}, {no_label, 9, 3}, 1}));
  EXPECT_EQ(examples[1], (Example{{4, 5}, {4, 5}, 2}));
  EXPECT_EQ(examples[2], (Example{{4, 5}, {no_label, no_label}, 3}));
  EXPECT_EQ(data->report().no_target, 0);
}

TEST_F(DatasetTest, IdsBeyondTheEmbeddingAreRefusedWithLineAndPlace) {
  DatasetOptions with = options();
  with.records.vocab_rows = 264;
  const auto data = open("d.jsonl", "{\"input_ids\": [1]}\n{\"input_ids\": [1, 264]}\n", with);
  ASSERT_FALSE(data.ok());
  EXPECT_NE(data.status().message().find("d.jsonl:2: input_ids[1] is 264"), std::string::npos)
      << data.status().message();
}

TEST_F(DatasetTest, CutDroppedAndUselessRecordsAreCounted) {
  std::string lines;
  for (int i = 0; i < 8; ++i) {
    lines += "{\"prompt\": \"" + std::string(200, 'p') + "\", \"completion\": \"12345\"}\n";
  }
  DatasetOptions with = options();
  with.max_length = 64;
  const auto none = open("d.jsonl", lines, with);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().message().find("8 of 8 have no target"), std::string::npos);
  with.max_length = 203;
  const auto data = open("d.jsonl", lines, with);
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->report().targets, 24);
  EXPECT_EQ(data->report().cut, 8);
  EXPECT_EQ(data->report().tokens_lost, 8 * 3);
  with.long_record = LongRecord::drop;
  EXPECT_FALSE(open("d.jsonl", lines, with).ok());
  with.long_record = LongRecord::error;
  EXPECT_NE(open("d.jsonl", lines, with).status().message().find("d.jsonl:1: the record has 206"),
            std::string::npos);
  with.long_record = LongRecord::split;
  with.max_length = 103;
  const auto split = open("d.jsonl", lines, with);
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(split->rows(), 8);
  EXPECT_EQ(split->report().no_target, 8);  // the first halves
  EXPECT_EQ(split->report().targets, 8 * 6);
}

TEST_F(DatasetTest, PackingFillsRowsInOrderWithoutCuttingRecords) {
  DatasetOptions with = options();
  with.packing = true;
  with.max_length = 8;
  const auto data = open("d.jsonl",
                         "{\"text\": \"aa\"}\n{\"text\": \"bbb\"}\n{\"text\": \"cc\"}\n"
                         "{\"text\": \"0123456789\"}\n",
                         with);
  ASSERT_TRUE(data.ok());
  ASSERT_EQ(data->rows(), 3);
  EXPECT_EQ(data->row(0)->examples, 2);
  EXPECT_EQ(data->row(0)->tokens, 7);
  EXPECT_EQ((*data->examples(1))[0].ids, (Ids{'c', 'c', end_id}));
  EXPECT_EQ((*data->examples(2))[0].ids.size(), 8U);
  EXPECT_EQ(data->report().cut, 1);
}

TEST_F(DatasetTest, PlainTextIsDocumentsBetweenBlankLinesOrOneStreamWhenPacked) {
  const std::string text = "one\ntwo\n\n \nthree\n";
  const auto documents = open("d.txt", text);
  ASSERT_TRUE(documents.ok()) << documents.status().message();
  ASSERT_EQ(documents->rows(), 2);
  EXPECT_EQ(all(*documents)[0].ids.size(), 8U);
  EXPECT_EQ(all(*documents)[1],
            (Example{{'t', 'h', 'r', 'e', 'e', end_id}, {'t', 'h', 'r', 'e', 'e', end_id}, 5}));
  DatasetOptions with = options();
  with.packing = true;
  with.max_length = 6;
  const auto stream = open("d.txt", text, with);
  ASSERT_TRUE(stream.ok());
  Ids together;
  for (const Example& example : all(*stream)) {
    EXPECT_TRUE(example.ids.size() == 6 || together.size() + example.ids.size() == 18);
    together.insert(together.end(), example.ids.begin(), example.ids.end());
  }
  EXPECT_EQ(tokenizer_.decode(together, true), text);
}

TEST_F(DatasetTest, InvalidTextIsLocatedOrReplacedAndCounted) {
  const std::vector<std::pair<std::string, std::int64_t>> cases = {
      {R"({"text":"\ud83d x"})", 1},
      {R"({"text":"\ude00\ud83d"})", 2},
      {"{\"text\":\"\xFF!\"}", 1}};
  for (const auto& [line, count] : cases) {
    const auto refused = open("d.jsonl", "{\"text\":\"ok\"}\n" + line + "\n");
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.status().message().find("d.jsonl:2: column 10"), std::string::npos)
        << refused.status().message();
    DatasetOptions with = options();
    with.records.replace_invalid = true;
    const auto data = open("d.jsonl", line + "\n", with);
    ASSERT_TRUE(data.ok()) << data.status().message();
    EXPECT_EQ(data->report().read.replaced, count);
  }
  EXPECT_EQ(all(*open("d.jsonl", R"({"text":"\ud83d\ude00"})"))[0].ids,
            (Ids{0xF0, 0x9F, 0x98, 0x80, end_id}));
  const auto text = open("d.txt", "fine\n\nb\xFF");
  ASSERT_FALSE(text.ok());
  EXPECT_NE(text.status().message().find("d.txt:3: "), std::string::npos);
}

TEST_F(DatasetTest, BrokenJsonIsRefusedAtItsColumn) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"text":"a"}{"text":"b"})", "column 13: more follows"},
      {R"([{"text":"a"}])", "JSON array"},
      {R"({"text":"a",})", "column 13"},
      {R"({"text" "a"})", "column 9"},
      {R"({"text":"a","n":01})", "column 17"},
      {R"({"text":"a","n":{"m":}})", "column 22"},
      {R"({"text":"a","n":[1,]})", "column 20"},
      {R"({"text":"a","n":tru})", "column 17"},
      {R"({"text":"a","n":"\q"})", "column 18"},
      {"{\"text\":\"a\tb\"}", "column 11"},
      {R"({"text":"a","text":"b"})", "'text' is there twice"},
      {R"({"text":"a","prompt":"b","completion":"c"})", "more than one"},
      {R"({"messages":[]})", "chat records"},
      {R"({"input_ids":[1,2.5]})", "column 17"},
      {R"({"input_ids":[1],"labels":[1,2]})", "'labels' has 2"},
      {"{\"text\":\"a\",\"n\":" + std::string(50'000, '[') + "}", "nested deeper than 128"},
      {R"({"text":"a)", "ends inside a string"}};
  for (const auto& [line, message] : cases) {
    const auto refused = open("d.jsonl", line);
    ASSERT_FALSE(refused.ok()) << line;
    EXPECT_NE(refused.status().message().find(message), std::string::npos)
        << line << " -> " << refused.status().message();
    EXPECT_NE(refused.status().message().find("d.jsonl:1: "), std::string::npos);
  }
}

TEST_F(DatasetTest, ALongRecordBetweenShortOnesIsRead) {
  const std::string big(20 << 20, 'x');
  DatasetOptions with = options();
  with.max_length = 16;
  const auto data =
      open("d.jsonl", "{\"text\":\"a\"}\n{\"text\":\"" + big + "\"}\n{\"text\":\"b\"}\n", with);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->rows(), 3);
  EXPECT_EQ(data->report().tokens_lost, (20 << 20) + 1 - 16);
  with.records.record_limit = 1000;
  const auto refused = open("d.jsonl", "{\"text\":\"a\"}\n{\"text\":\"" + big + "\"}\n", with);
  EXPECT_NE(refused.status().message().find("d.jsonl:2: the record has 20971531 bytes"),
            std::string::npos)
      << refused.status().message();
}

TEST_F(DatasetTest, AStartTokenThatIsThereTwiceIsCounted) {
  GgufVocabulary vocabulary{.model = "gpt2",
                            .pre = "gpt-2",
                            .tokens = {"a", "<s>"},
                            .token_types = {1, 3},
                            .bos_id = 1,
                            .add_bos = true};
  const Tokenizer tokenizer = *Tokenizer::from_gguf_vocabulary(vocabulary);
  const auto path =
      folder_.write("d.jsonl", "{\"text\":\"<s>a\"}\n{\"text\":\"a\"}\n{\"text\":\"<s>a\"}\n");
  DatasetOptions with = options();
  const auto data = Dataset::open(path, &tokenizer, with);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->report().read.start_token_twice, 2);
  EXPECT_EQ((*data->examples(0))[0].ids, (Ids{1, 1, 0}));
  with.records.rule.add_special_tokens = false;
  const auto plain = Dataset::open(path, &tokenizer, with);
  EXPECT_EQ(plain->report().read.start_token_twice, 0);
  EXPECT_EQ((*plain->examples(0))[0].ids, (Ids{1, 0}));
}

TEST_F(DatasetTest, NothingIsLeftInTheWorkDirectory) {
  const auto data = open("d.jsonl", "{\"text\":\"a\"}\n");
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(DatasetTest, AnExampleIsShownTokenByToken) {
  const std::string shown =
      describe_example(tokenizer_, {{'a', '\n', end_id}, {no_label, no_label, end_id}, 1});
  EXPECT_NE(shown.find("       0      97       -  'a'"), std::string::npos) << shown;
  EXPECT_NE(shown.find("       1      10       -  '\\x0a'"), std::string::npos) << shown;
  EXPECT_NE(shown.find("       2     256     256  '<|end|>'"), std::string::npos) << shown;
}

}  // namespace
}  // namespace parbuckle
