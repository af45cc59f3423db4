#include "engine/checkpoint/gguf.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/checkpoint/safetensors.h"
#include "tests/engine/checkpoint/refusals.h"
#include "tests/support/shared_path.h"

namespace parbuckle {
namespace {

Result<Gguf> read_path(const std::string& path) {
  PARBUCKLE_ASSIGN(const InputFile file, InputFile::open(path));
  return read_gguf(file);
}

TEST(Gguf, RefusesEveryMalformedFixtureByName) {
  PARBUCKLE_NEEDS_SHARED("fixtures/bad/gguf");
  const Refusal refusals[] = {
      {"alignment_not_power_of_two", "general.alignment is 24"},
      {"alignment_zero", "general.alignment is 0"},
      {"bad_magic", "magic 'GGUF'"},
      {"big_endian", "50331648: a big-endian file"},
      {"dimensions_overflow", "does not fit 64 bits"},
      {"duplicate_key", "'general.architecture' appears twice"},
      {"empty", "empty file"},
      {"five_dimensions", "has 5 dimensions"},
      {"huge_array", "array states 2305843009213693952 entries"},
      {"huge_pair_count", "states 18446744073709551615 metadata pairs"},
      {"huge_tensor_count", "states 1152921504606846976 tensors"},
      {"name_with_nul", "holds a NUL"},
      {"nested_arrays", "array of arrays"},
      {"no_architecture", "'general.architecture' is missing"},
      {"offset_beyond_file", "beyond"},
      {"offset_unaligned", "offset 4 is no multiple of the alignment 32"},
      {"removed_quant_type", "type 4 does not exist or was removed"},
      {"row_not_whole_blocks", "rows of 20 elements"},
      {"string_beyond_file", "states a length of"},
      {"string_length_overflow", "states a length of 18446744073709551612"},
      {"truncated_data", "'output_norm.weight'"},
      {"truncated_header", "ends inside"},
      {"unknown_quant_type", "type 250"},
      {"unknown_value_type", "unknown value type 77"},
      {"version_1", "version 1 (32-bit counts)"},
      {"version_99", "version 99"},
  };
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(shared_file("fixtures/bad/gguf"))) {
    files += entry.path().extension() == ".gguf" ? 1U : 0U;
  }
  EXPECT_EQ(files, std::size(refusals) + 1);  // base.gguf is the valid one
  for (const Refusal& refusal : refusals) {
    const std::string path =
        shared_file("fixtures/bad/gguf/" + std::string(refusal.file) + ".gguf").string();
    expect_refusal(read_path(path).status(), path, refusal.key_word);
  }
}

TEST(Gguf, ReadsTheValidBase) {
  PARBUCKLE_NEEDS_SHARED("fixtures/bad/gguf");
  const auto base = read_path(shared_file("fixtures/bad/gguf/base.gguf").string());
  ASSERT_TRUE(base.ok()) << base.status().message();
  EXPECT_EQ(base->architecture, "llama");
  EXPECT_EQ(base->tensors.size(), 2U);
  for (const TensorInfo& tensor : base->tensors) {
    EXPECT_EQ(tensor.type, StorageType::f32);
  }
}

TEST(Gguf, MetadataKeepsItsTypes) {
  PARBUCKLE_NEEDS_SHARED("fixtures/gguf/llama-q4_1.gguf");
  const auto file = read_path(shared_file("fixtures/gguf/llama-q4_1.gguf").string());
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(*file->find<std::int64_t>("llama.embedding_length"), 64);
  EXPECT_EQ(*file->find<std::string>("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(*file->find<bool>("tokenizer.ggml.add_bos_token"), false);
  EXPECT_EQ(file->find<std::vector<std::string>>("tokenizer.ggml.tokens")->size(), 288U);
  EXPECT_EQ(file->find<std::vector<std::int64_t>>("tokenizer.ggml.token_type")->size(), 288U);
  EXPECT_EQ(*file->find<double>("llama.rope.freq_base"), 10000.0);
  EXPECT_EQ(file->find<std::string>("llama.embedding_length"), nullptr);
  EXPECT_FALSE(file->has("llama.no_such_key"));
}

/// Every readable tensor as floats, by name.
std::map<std::string, std::vector<float>> floats_of(const InputFile& file,
                                                    const std::vector<TensorInfo>& tensors) {
  std::map<std::string, std::vector<float>> out;
  for (const TensorInfo& tensor : tensors) {
    if (!is_readable(tensor.type)) {
      continue;
    }
    std::vector<std::byte> raw(static_cast<std::size_t>(tensor.end - tensor.begin));
    EXPECT_TRUE(file.read(tensor.begin, raw).ok());
    std::vector<float>& values = out[tensor.name];
    values.resize(static_cast<std::size_t>(*element_count(tensor.shape)));
    to_floats(tensor.type, raw.data(), static_cast<std::int64_t>(values.size()), values.data());
  }
  return out;
}

std::map<std::string, std::vector<float>> expected_of(const std::string& name) {
  const InputFile file = *InputFile::open(shared_file(name).string());
  return floats_of(file, read_safetensors(file)->tensors);
}

TEST(Gguf, DequantisesExactly) {
  PARBUCKLE_NEEDS_SHARED("fixtures/gguf");
  for (const std::string type : {"q8_0", "q4_0", "q4_1", "q5_0", "q5_1"}) {
    const std::string stem = "fixtures/gguf/llama-" + type;
    const InputFile file = *InputFile::open(shared_file(stem + ".gguf").string());
    const auto gguf = read_gguf(file);
    ASSERT_TRUE(gguf.ok()) << gguf.status().message();
    const auto found = floats_of(file, gguf->tensors);
    std::size_t compared = 0;
    for (const auto& [name, values] : expected_of(stem + ".expected.safetensors")) {
      if (name.rfind("tensor.", 0) == 0) {
        EXPECT_EQ(found.at(name.substr(7)), values) << type << " " << name;
        ++compared;
      }
    }
    EXPECT_EQ(compared, gguf->tensors.size()) << type;
  }
}

TEST(Gguf, RandomBlocksOfEverySupportedType) {
  PARBUCKLE_NEEDS_SHARED("fixtures/gguf/blocks.gguf");
  const InputFile file = *InputFile::open(shared_file("fixtures/gguf/blocks.gguf").string());
  const auto gguf = read_gguf(file);
  ASSERT_TRUE(gguf.ok()) << gguf.status().message();
  EXPECT_EQ(gguf->tensors.size(), 12U);
  const auto expected = expected_of("fixtures/gguf/blocks.expected.safetensors");
  const auto found = floats_of(file, gguf->tensors);
  EXPECT_EQ(found.size(), 5U);
  for (const auto& [name, values] : found) {
    EXPECT_EQ(values, expected.at(name)) << name;
  }
}

}  // namespace
}  // namespace parbuckle
