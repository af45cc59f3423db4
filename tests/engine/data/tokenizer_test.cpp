#include "engine/data/tokenizer.h"

#include <ctime>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace parbuckle {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;

Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Json file_of(const Json& vocabulary, const Json& merges) {
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level(true)},
          {"post_processor", nullptr},
          {"decoder", byte_level(true)},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}}};
}

Json tb(const Json& merges) {
  return file_of({{"a", 0}, {"b", 1}, {"c", 2}, {"ab", 3}, {"bc", 4}, {"abc", 5}, {"Ġ", 6}},
                 merges);
}

Json tc() {
  return file_of({{"a", 0},  {"b", 1},   {"c", 2},  {"Ġ", 3},  {"Ġa", 4},  {"Ċ", 5},    {"<", 6},
                  {">", 7},  {"x", 8},   {"1", 9},  {"2", 10}, {"12", 11}, {"123", 12}, {"3", 13},
                  {"4", 14}, {"34", 15}, {"A", 16}, {"é", 17}, {"ÃĿ", 18}, {"e", 19},   {"Ã", 20},
                  {"©", 21}, {"Ì", 22},  {"ģ", 23}, {"Ã©", 24}},
                 Json::array({"Ġ a", "1 2", "3 4", "12 3", "Ã ©"}));
}

Json added(std::int32_t id, const char* content, bool normalized) {
  return {{"id", id},
          {"content", content},
          {"single_word", false},
          {"lstrip", false},
          {"rstrip", false},
          {"normalized", normalized},
          {"special", false}};
}

Json split_first(const char* numbers) {
  const std::string pattern = std::string(numbers) + R"(| ?[^\s\p{L}\p{N}]+| ?\p{L}+|\s+)";
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level(false)})}};
}

Tokenizer made(const Json& file) {
  auto tokenizer = Tokenizer::from_json(file.dump(), "made");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

Ids ids_of(const Json& file, const std::string& text) {
  return *made(file).encode(text, true);
}

TEST(Tokenizer, MergesMayBeStringsOrPairs) {
  EXPECT_EQ(ids_of(tb(Json::array({"b c", "a b"})), "abc"), (Ids{0, 4}));
  EXPECT_EQ(ids_of(tb(Json::array({Json::array({"b", "c"}), Json::array({"a", "b"})})), "abc"),
            (Ids{0, 4}));
}

TEST(Tokenizer, MergesOfTokensWithSpacesNeedPairs) {
  const Json vocabulary = {{"a", 0}, {" ", 1}, {"b", 2}, {"a ", 3}, {"a b", 4}};
  Json file = file_of(vocabulary, Json::array({Json::array({"a", " "}), Json::array({"a ", "b"})}));
  file["pre_tokenizer"] = nullptr;
  EXPECT_EQ(ids_of(file, "a b"), Ids{4});
  const auto again = Tokenizer::from_json(made(file).to_json(), "again");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again->encode("a b", true), Ids{4});
  file["model"]["merges"] = Json::array({"a  ", "a  b"});
  const auto refused = Tokenizer::from_json(file.dump(), "made");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("merges[0]"), std::string::npos);
}

TEST(Tokenizer, RunsThePatternOfTheFile) {
  Json file = tc();
  EXPECT_EQ(ids_of(file, "1234"), (Ids{11, 15}));
  file["pre_tokenizer"] = split_first(R"(\p{N}{1,3})");
  EXPECT_EQ(ids_of(file, "1234"), (Ids{12, 14}));
  file["pre_tokenizer"] = split_first(R"(\p{N})");
  EXPECT_EQ(ids_of(file, "1234"), (Ids{9, 10, 13, 14}));
}

TEST(Tokenizer, PatternsWithAnotherMeaningInOurEngineAreRefused) {
  Json file = tc();
  for (const char* pattern :
       {R"(\h+)", R"([a&&b])", R"((?m:a))", R"(a{1,3}+)", R"([a[bc]])", R"((a)\1)"}) {
    file["pre_tokenizer"] = split_first(pattern);
    const auto refused = Tokenizer::from_json(file.dump(), "made");
    ASSERT_FALSE(refused.ok()) << pattern;
    EXPECT_EQ(refused.status().code(), Code::unsupported) << refused.status().message();
  }
}

TEST(Tokenizer, SplitBehaviorsAreTheReferenceLibrarys) {
  // Words are seen through ids: no merges here, and the space is no token, so count pieces by ignore_merges.
  const auto pieces = [](const char* behavior, bool invert) {
    Json file =
        file_of({{"a", 0}, {"-", 1}, {"a-", 2}, {"-a", 3}, {"--", 4}, {"a--", 5}, {"--a", 6}},
                Json::array());
    file["model"]["ignore_merges"] = true;
    file["pre_tokenizer"] = {{"type", "Split"},
                             {"pattern", {{"String", "-"}}},
                             {"behavior", behavior},
                             {"invert", invert}};
    return ids_of(file, "a--a");
  };
  EXPECT_EQ(pieces("Isolated", false), (Ids{0, 1, 1, 0}));
  EXPECT_EQ(pieces("Removed", false), (Ids{0, 0}));
  EXPECT_EQ(pieces("Removed", true), (Ids{1, 1}));
  EXPECT_EQ(pieces("Contiguous", false), (Ids{0, 4, 0}));
  EXPECT_EQ(pieces("MergedWithPrevious", false), (Ids{2, 1, 0}));
  EXPECT_EQ(pieces("MergedWithNext", false), (Ids{0, 1, 3}));
}

TEST(Tokenizer, BytesWithoutATokenAreLeftOutAndCounted) {
  const Tokenizer tokenizer = made(tc());
  EncodeReport report;
  EXPECT_EQ(*tokenizer.encode("aza", true, &report), (Ids{0, 0}));
  EXPECT_EQ(report.lost_bytes, 1);
}

TEST(Tokenizer, WhiteSpaceAndAddedTokensAsInTheReferenceLibrary) {
  EXPECT_EQ(ids_of(tc(), "a\n\n a"), (Ids{0, 5, 5, 4}));
  EXPECT_EQ(ids_of(tc(), "a   a"), (Ids{0, 3, 3, 4}));
  Json file = tc();
  file["normalizer"] = {{"type", "Lowercase"}};
  file["added_tokens"] = Json::array({added(25, "<X>", true)});
  EXPECT_EQ(ids_of(file, "<x><X>"), (Ids{25, 25}));
  file["added_tokens"] = Json::array({added(25, "<X>", false)});
  EXPECT_EQ(ids_of(file, "<x><X>"), (Ids{6, 8, 7, 25}));
}

TEST(Tokenizer, TheTemplateAddsItsTokensOnce) {
  Json file = tc();
  file["added_tokens"] = Json::array({added(25, "<s>", false)});
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       Json::array({Json{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                    Json{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}})},
      {"pair", Json::array()},
      {"special_tokens",
       {{"<s>", {{"id", "<s>"}, {"ids", Json::array({25})}, {"tokens", Json::array({"<s>"})}}}}}};
  const Tokenizer tokenizer = made(file);
  EXPECT_EQ(*tokenizer.encode("a", true), (Ids{25, 0}));
  EXPECT_EQ(*tokenizer.encode("", true), Ids{25});
  EXPECT_EQ(*tokenizer.encode("a", false), Ids{0});
  EXPECT_EQ(*tokenizer.encode("<s>a", true), (Ids{25, 25, 0}));
}

TEST(Tokenizer, NfcComposesBeforeTheModelSeesTheText) {
  Json file = tc();
  file["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(ids_of(file, "e\xCC\x81"), Ids{24});
  EXPECT_EQ(ids_of(tc(), "e\xCC\x81"), (Ids{19, 22, 23}));
}

TEST(Tokenizer, TextThatIsNotUtf8IsRefused) {
  const auto refused = made(tc()).encode("a\xFF", true);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("byte 2"), std::string::npos);
}

TEST(Tokenizer, DecodingUnknownIdsAndHalfCharactersDoesNotFail) {
  const Tokenizer tokenizer = made(tc());
  EXPECT_EQ(tokenizer.decode(Ids{20, 999, -5, 0}, false),
            "\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(tokenizer.decode(Ids{24}, false), "é");
}

// Processor seconds of this thread: what others do on the machine does not count.
double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(Tokenizer, OneLongWordTakesNoMoreThanNLogN) {
  const Tokenizer tokenizer = made(tc());
  const auto seconds = [&](std::size_t length) {
    double best = 1e9;
    for (int repeat = 0; repeat < 3; ++repeat) {
      const double begin = processor_seconds();
      const auto ids = tokenizer.encode(std::string(length, '1'), true);
      best = std::min(best, processor_seconds() - begin);
      EXPECT_EQ(ids->size(), length);
    }
    return best;
  };
  // 32 times the length: n log n takes 43 times as long, n^2 a thousand times.
  constexpr std::size_t shortest = 30'000;
  EXPECT_LT(seconds(32 * shortest), 200 * seconds(shortest) + 0.01);
  // All of these merge, level by level.
  std::string text;
  for (int i = 0; i < 250'000; ++i) {
    text += "1234";
  }
  EXPECT_EQ(tokenizer.encode(text, true)->size(), 500'000U);
}

TEST(Tokenizer, GgufVocabularyFillsTheSpecialTokens) {
  GgufVocabulary given{.model = "gpt2",
                       .pre = "llama-bpe",
                       .tokens = {"a", "b", "ab", "<s>", "</s>"},
                       .token_types = {1, 1, 1, 3, 3},
                       .merges = {"a b"},
                       .bos_id = 3,
                       .eos_id = 4};
  const auto tokenizer = Tokenizer::from_gguf_vocabulary(given);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ(*tokenizer->encode("ab</s>", true), (Ids{3, 2, 4}));
  EXPECT_EQ(tokenizer->decode(Ids{3, 2, 4}, true), "ab");
  EXPECT_EQ(tokenizer->special_ids(), (SpecialIds{.bos = 3, .eos = 4}));
  EXPECT_NE(tokenizer->config_to_json().find("\"eos_token\": \"</s>\""), std::string::npos);
  given.pre = "mystery";
  EXPECT_NE(Tokenizer::from_gguf_vocabulary(given).status().message().find("'mystery'"),
            std::string::npos);
}

}  // namespace
}  // namespace parbuckle
