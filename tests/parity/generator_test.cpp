// Logits and continuations by the path of `generate`: model folder or GGUF, plan, executor, prefill and decode.
#include <string>

#include <gtest/gtest.h>

#include "tests/parity/opened_generator.h"
#include "tests/support/fixture_model.h"
#include "tests/support/fixture_tensors.h"
#include "tests/support/shared_path.h"

namespace parbuckle {
namespace {

constexpr std::int64_t cache_rows = 64;

/// Every position of every row, by prefill and by decoding: `expected` is (rows, tokens, vocabulary).
void expect_logits(OpenedGenerator& generator,
                   const std::vector<std::int32_t>& ids,
                   std::size_t tokens,
                   const std::vector<double>& expected) {
  const std::size_t vocabulary = expected.size() / ids.size();
  ASSERT_EQ(expected.size(), ids.size() * vocabulary);
  for (std::size_t at = 0; at < ids.size(); ++at) {
    const std::size_t row_begin = at / tokens * tokens;
    const std::span<const std::int32_t> seen(&ids[row_begin], at - row_begin + 1);
    for (const auto& found : {generator.logits(seen), generator.decoded_logits(seen)}) {
      ASSERT_TRUE(found.ok()) << found.status().message();
      ASSERT_EQ(found->size(), vocabulary);
      for (std::size_t id = 0; id < vocabulary; ++id) {
        ASSERT_NEAR((*found)[id], expected[at * vocabulary + id], logit_limit)
            << "position " << at << ", id " << id;
      }
    }
  }
}

class GeneratorParity : public testing::TestWithParam<std::string> {};

TEST_P(GeneratorParity, LogitsAndGreedyIdsAreTheReferenceValues) {
  const std::string folder = "fixtures/models/" + GetParam();
  PARBUCKLE_NEEDS_SHARED(folder);
  const FixtureModel model = fixture_model(GetParam());
  const std::int64_t tokens = model.tokens();
  const auto generator = OpenedGenerator::open(shared_file(folder).string(),
                                               {.prompt_tokens = tokens, .cache_rows = cache_rows});
  ASSERT_TRUE(generator.ok()) << generator.status().message();
  expect_logits(**generator,
                model.step_rows().front().ids,
                static_cast<std::size_t>(tokens),
                model.expected.at("logits"));
  for (const auto& sample : model.numbers["greedy"]) {
    const auto prompt = sample["prompt"].get<std::vector<std::int32_t>>();
    const auto expected = sample["new_ids"].get<std::vector<std::int32_t>>();
    const auto found = (*generator)->greedy(prompt, std::ssize(expected));
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(*found, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Models,
                         GeneratorParity,
                         testing::ValuesIn(parity_models()),
                         [](const auto& given) { return given.param; });

/// File in fixtures/gguf, and its reference values.
struct GgufCase {
  const char* name;
  const char* file;
  const char* expected;
};

class GgufParity : public testing::TestWithParam<GgufCase> {};

TEST_P(GgufParity, LogitsAreThoseOfTheDequantisedWeights) {
  const std::string file = std::string("fixtures/gguf/") + GetParam().file;
  PARBUCKLE_NEEDS_SHARED(file);
  const Tensors expected =
      fixture_tensors(shared_file(std::string("fixtures/gguf/") + GetParam().expected));
  constexpr std::size_t rows = 2;
  const std::vector<double>& ids = expected.at("input_ids");
  const std::size_t tokens = ids.size() / rows;
  const auto generator = OpenedGenerator::open(
      shared_file(file).string(),
      {.prompt_tokens = static_cast<std::int64_t>(tokens), .cache_rows = cache_rows});
  ASSERT_TRUE(generator.ok()) << generator.status().message();
  expect_logits(**generator, {ids.begin(), ids.end()}, tokens, expected.at("logits"));
}

INSTANTIATE_TEST_SUITE_P(
    Files,
    GgufParity,
    testing::Values(GgufCase{"folder", "llama", "llama/expected.safetensors"},
                    GgufCase{"f32", "llama-f32.gguf", "llama-f32.expected.safetensors"},
                    GgufCase{"f16", "llama-f16.gguf", "llama-f16.expected.safetensors"},
                    GgufCase{"bf16", "llama-bf16.gguf", "llama-bf16.expected.safetensors"},
                    GgufCase{"q8_0", "llama-q8_0.gguf", "llama-q8_0.expected.safetensors"},
                    GgufCase{"q4_0", "llama-q4_0.gguf", "llama-q4_0.expected.safetensors"},
                    GgufCase{"q4_1", "llama-q4_1.gguf", "llama-q4_1.expected.safetensors"}),
    [](const auto& given) { return std::string(given.param.name); });

}  // namespace
}  // namespace parbuckle
