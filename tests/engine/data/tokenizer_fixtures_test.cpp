// The ids the reference library gives for the same files, and the answers to files that are not as they should be.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/data/tokenizer.h"
#include "tests/engine/data/gguf_vocabulary.h"
#include "tests/support/shared_path.h"

namespace parbuckle {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<std::int32_t>;

Json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

void expect_case(const Tokenizer& tokenizer, const Json& expected) {
  const std::string text = expected.at("text").get<std::string>();
  const auto ids = tokenizer.encode(text, true);
  ASSERT_TRUE(ids.ok()) << ids.status().message();
  EXPECT_EQ(*ids, expected.at("ids").get<Ids>()) << "text: " << text;
  const auto plain = tokenizer.encode(text, false);
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(*plain, expected.at("ids_no_special").get<Ids>()) << "text: " << text;
  EXPECT_EQ(tokenizer.decode(*ids, false), expected.at("decoded").get<std::string>());
  EXPECT_EQ(tokenizer.decode(*ids, true), expected.at("decoded_skip_special").get<std::string>());
}

class TokenizerFixtures : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerFixtures, GiveTheReferenceIdsAlsoAfterWritingAndReadingBack) {
  const std::string folder = std::string("fixtures/tokenizers/") + GetParam();
  PARBUCKLE_NEEDS_SHARED(folder);
  const auto tokenizer = Tokenizer::from_folder(shared_file(folder).string());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const auto again = Tokenizer::from_json(tokenizer->to_json(), "written");
  ASSERT_TRUE(again.ok()) << again.status().message();
  const Json cases = read_json(shared_file(folder) / "cases.json");
  ASSERT_GT(cases.size(), 20U);
  for (const Json& expected : cases) {
    expect_case(*tokenizer, expected);
    expect_case(*again, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All,
    TokenizerFixtures,
    testing::Values("gpt2", "gpt2_prefix_space", "smollm", "llama3", "qwen2", "added_tokens"),
    [](const auto& given) { return std::string(given.param); });

TEST(TokenizerFixture, KindsThatAreNotImplementedAreRefusedByName) {
  PARBUCKLE_NEEDS_SHARED("fixtures/tokenizers");
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"llama2", "byte_fallback"},
      {"mistral_metaspace", "byte_fallback"},
      {"gemma_like", "byte_fallback"},
      {"bpe_dropout_free", "</w>"},
      {"unigram_t5like", "Unigram"}};
  for (const auto& [name, word] : refused) {
    const auto tokenizer =
        Tokenizer::from_folder(shared_file("fixtures/tokenizers/" + name).string());
    ASSERT_FALSE(tokenizer.ok()) << name;
    EXPECT_NE(tokenizer.status().message().find(word), std::string::npos)
        << tokenizer.status().message();
  }
}

TEST(TokenizerFixture, GgufVocabularyGivesTheReferenceIds) {
  PARBUCKLE_NEEDS_SHARED("fixtures/gguf");
  const auto vocabulary =
      read_gguf_vocabulary(shared_file("fixtures/gguf/tokenizer-gpt2.gguf").string());
  ASSERT_FALSE(vocabulary.tokens.empty());
  const auto tokenizer = Tokenizer::from_gguf_vocabulary(vocabulary);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const auto again = Tokenizer::from_json(tokenizer->to_json(), "written");
  ASSERT_TRUE(again.ok()) << again.status().message();
  const Json cases = read_json(shared_file("fixtures/gguf/tokenizer-gpt2.cases.json"));
  ASSERT_GT(cases.size(), 20U);
  for (const Json& expected : cases) {
    const std::string text = expected.at("text").get<std::string>();
    EXPECT_EQ(*tokenizer->encode(text, false), expected.at("ids").get<Ids>()) << text;
    EXPECT_EQ(*again->encode(text, false), expected.at("ids").get<Ids>()) << text;
  }
}

TEST(TokenizerFixture, GgufVocabularyOfAnotherModelIsRefused) {
  PARBUCKLE_NEEDS_SHARED("fixtures/gguf");
  const auto vocabulary =
      read_gguf_vocabulary(shared_file("fixtures/gguf/tokenizer-llama.gguf").string());
  const auto tokenizer = Tokenizer::from_gguf_vocabulary(vocabulary);
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_NE(tokenizer.status().message().find("'llama'"), std::string::npos);
}

TEST(TokenizerFixture, BadFilesAreRefusedNamingFileAndFault) {
  PARBUCKLE_NEEDS_SHARED("fixtures/bad/tokenizer");
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"unknown_key", "'future'"},
      {"unknown_model", "'TrigramTree'"},
      {"unknown_normalizer", "'Rot13'"},
      {"unknown_pre_tokenizer", "'Astrology'"},
      {"unknown_decoder", "'Morse'"},
      {"unknown_post_processor", "'Stamp'"},
      {"bad_regex", "pre_tokenizer"},
      {"merge_of_absent_token", "merges[1] names 'x'"},
      {"merge_result_absent", "merges[0] names 'bc'"},
      {"merge_without_space", "merges[0]"},
      {"merge_of_three", "merges[0]"},
      {"merges_mixed_forms", "mixes"},
      {"duplicate_id", "the id 1 to both 'b' and 'c'"},
      {"negative_id", "-1"},
      {"vocab_list", "vocab"},
      {"added_id_conflict", "'<s>'"},
      {"dropout", "dropout"},
      {"template_unknown_token", "'<s>'"},
      {"missing_model", "'model'"}};
  for (const auto& [name, word] : faults) {
    const std::string path = shared_file("fixtures/bad/tokenizer/" + name + ".json").string();
    ASSERT_FALSE(path.empty()) << name;
    const auto tokenizer = Tokenizer::from_json_file(path);
    ASSERT_FALSE(tokenizer.ok()) << name;
    const std::string message = tokenizer.status().message();
    EXPECT_NE(message.find(word), std::string::npos) << name << ": " << message;
    EXPECT_NE(message.find(name + ".json"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
  const auto good =
      Tokenizer::from_json_file(shared_file("fixtures/bad/tokenizer/ok.json").string());
  ASSERT_TRUE(good.ok()) << good.status().message();
  EXPECT_EQ(*good->encode("abcab", true), (Ids{4, 3}));
}

TEST(TokenizerFixture, AFileThatIsCutOffOrRepeatsAKeyIsRefused) {
  PARBUCKLE_NEEDS_SHARED("fixtures/bad/tokenizer");
  std::ifstream file(shared_file("fixtures/bad/tokenizer/ok.json"));
  std::stringstream stream;
  stream << file.rdbuf();
  const std::string text = stream.str();
  for (std::size_t end = 0; end + 2 < text.size(); ++end) {
    ASSERT_FALSE(Tokenizer::from_json(text.substr(0, end), "cut").ok()) << end;
  }
  std::string twice = text;
  twice.insert(1, "\"model\": {},");
  EXPECT_NE(Tokenizer::from_json(twice, "twice").status().message().find("'model' is given twice"),
            std::string::npos);
  EXPECT_FALSE(Tokenizer::from_json(std::string(20000, '['), "deep").ok());
}

}  // namespace
}  // namespace parbuckle
