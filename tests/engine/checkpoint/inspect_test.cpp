#include "engine/checkpoint/inspect.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/engine/checkpoint/refusals.h"
#include "tests/support/shared_path.h"

namespace parbuckle {
namespace {

void expect_line(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
}

TEST(Inspect, DescribesASupportedFolder) {
  PARBUCKLE_NEEDS_SHARED("fixtures/models/mistral_window");
  const auto text = inspect(shared_file("fixtures/models/mistral_window").string());
  ASSERT_TRUE(text.ok()) << text.status().message();
  expect_line(*text, "kind        Hugging Face folder\n");
  expect_line(*text, "mistral: 3 layers, hidden 24, 4 heads of 6 (2 key/value)");
  expect_line(*text, "window 7 in 3 layers");
  expect_line(*text, "supported   yes\n");
  expect_line(*text, "model.norm.weight");
  expect_line(*text, "[109, 24]");
}

TEST(Inspect, DescribesAGguf) {
  PARBUCKLE_NEEDS_SHARED("fixtures/gguf/llama-q4_1.gguf");
  const auto found = inspect_model(shared_file("fixtures/gguf/llama-q4_1.gguf").string());
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->kind, "GGUF version 3, architecture llama");
  EXPECT_TRUE(found->unsupported.empty());
  EXPECT_EQ(found->config->hidden_size, 64);
  expect_line(inspection_text(*found), "Q4_1 16 tensors");
}

// A model that we cannot compute is described with the reason.
TEST(Inspect, SaysWhyAModelIsNotSupported) {
  PARBUCKLE_NEEDS_SHARED("fixtures");
  const auto gemma = inspect(shared_file("fixtures/models/gemma2").string());
  ASSERT_TRUE(gemma.ok()) << gemma.status().message();
  expect_line(*gemma, "supported   no: ");
  expect_line(*gemma, "'gemma2'");
  expect_line(*gemma, "model.embed_tokens.weight");
  const auto lone =
      inspect(shared_file("fixtures/bad/safetensors/ok_unaligned.safetensors").string());
  ASSERT_TRUE(lone.ok()) << lone.status().message();
  expect_line(*lone, "no config.json beside it");
  expect_line(*lone, "parameters  7\n");
}

TEST(Inspect, MalformedFilesAreErrors) {
  PARBUCKLE_NEEDS_SHARED("fixtures/bad");
  for (const Refusal& refusal : {Refusal{"safetensors/overlap.safetensors", "overlaps"},
                                 Refusal{"gguf/alignment_zero.gguf", "general.alignment is 0"}}) {
    const std::string path = shared_file("fixtures/bad/" + std::string(refusal.file)).string();
    expect_refusal(inspect(path).status(), path, refusal.key_word);
  }
}

}  // namespace
}  // namespace parbuckle
