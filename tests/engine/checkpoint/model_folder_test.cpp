#include "engine/checkpoint/model_folder.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/float_formats.h"
#include "tests/engine/checkpoint/refusals.h"
#include "tests/engine/checkpoint/temporary_folder.h"
#include "tests/support/shared_path.h"

namespace parbuckle {
namespace {

std::vector<float> values_of(const ModelFolder& model, std::size_t parameter) {
  std::vector<float> out(static_cast<std::size_t>(model.parameters()[parameter].elements()));
  EXPECT_TRUE(model.read(parameter, 0, static_cast<std::int64_t>(out.size()), out.data()).ok());
  return out;
}

constexpr const char* supported[] = {"gpt2_tied",
                                     "gpt2_wide",
                                     "llama_bf16",
                                     "llama_bias",
                                     "llama_f16",
                                     "llama_gqa_untied",
                                     "llama_head_dim",
                                     "llama_mha_tied",
                                     "llama_rope_linear",
                                     "llama_rope_llama3",
                                     "llama_sharded",
                                     "mistral_window",
                                     "qwen2",
                                     "qwen2_window",
                                     "qwen3"};

TEST(ModelFolder, OpensEverySupportedModel) {
  PARBUCKLE_NEEDS_SHARED("fixtures/models");
  for (const std::string name : supported) {
    const auto model = ModelFolder::open(shared_file("fixtures/models/" + name).string());
    ASSERT_TRUE(model.ok()) << name << ": " << model.status().message();
    const auto expected = nlohmann::json::parse(
        text_of_file(shared_file("fixtures/models/" + name + "/expected.json")));
    std::int64_t elements = 0;
    for (const Parameter& parameter : model->parameters()) {
      elements += parameter.elements();
    }
    EXPECT_EQ(elements, expected["parameters"].get<std::int64_t>()) << name;
    EXPECT_EQ(model->saved_tensors().size(), model->parameters().size()) << name;
  }
}

TEST(ModelFolder, RefusesModelsItCannotCompute) {
  PARBUCKLE_NEEDS_SHARED("fixtures/models");
  const Refusal refusals[] = {{"gemma2", "'gemma2'"},
                              {"gemma3_text", "'gemma3_text'"},
                              {"llama_rope_yarn", "'yarn'"},
                              {"mixtral", "'mixtral'"},
                              {"olmo2", "'olmo2'"},
                              {"phi3", "'phi3'"}};
  for (const Refusal& refusal : refusals) {
    const std::string path = shared_file("fixtures/models/" + std::string(refusal.file)).string();
    expect_refusal(ModelFolder::open(path).status(), path, refusal.key_word);
  }
}

TEST(ModelFolder, AnyRangeEqualsTheWhole) {
  PARBUCKLE_NEEDS_SHARED("fixtures");
  for (const char* const path : {"fixtures/models/llama_f16",
                                 "fixtures/models/llama_sharded",
                                 "fixtures/gguf/llama-q4_1.gguf"}) {
    const auto model = ModelFolder::open(shared_file(path).string());
    ASSERT_TRUE(model.ok()) << model.status().message();
    for (const std::size_t parameter :
         {std::size_t{0}, *model->find("model.layers.1.mlp.down_proj.weight")}) {
      const std::vector<float> whole = values_of(*model, parameter);
      for (const std::int64_t first : {0, 1, 31, 32, 33, 95}) {
        for (const std::int64_t count : {1, 31, 32, 64, 101}) {
          std::vector<float> part(static_cast<std::size_t>(count) + 1, 77.0F);
          ASSERT_TRUE(model->read(parameter, first, count, part.data()).ok());
          EXPECT_TRUE(std::equal(part.begin(), part.end() - 1, whole.begin() + first));
          EXPECT_EQ(part.back(), 77.0F);  // not one element more
        }
      }
    }
  }
}

// The rows of attn_q and attn_k come back in the order of the Hugging Face folder, whole or in runs of rows.
TEST(ModelFolder, GgufGivesTheFolderValues) {
  PARBUCKLE_NEEDS_SHARED("fixtures/gguf/llama");
  const auto folder = ModelFolder::open(shared_file("fixtures/gguf/llama").string());
  ASSERT_TRUE(folder.ok()) << folder.status().message();
  const auto exact = ModelFolder::open(shared_file("fixtures/gguf/llama-f32.gguf").string());
  const auto half = ModelFolder::open(shared_file("fixtures/gguf/llama-f16.gguf").string());
  const auto brain = ModelFolder::open(shared_file("fixtures/gguf/llama-bf16.gguf").string());
  ASSERT_TRUE(exact.ok() && half.ok() && brain.ok());
  ASSERT_EQ(exact->parameters(), folder->parameters());
  for (std::size_t i = 0; i < folder->parameters().size(); ++i) {
    const Parameter& parameter = folder->parameters()[i];
    std::vector<float> values = values_of(*folder, i);
    EXPECT_EQ(values_of(*exact, i), values) << parameter.name;
    for (std::int64_t row = 0; row + 3 <= parameter.rows; row += 3) {
      std::vector<float> part(static_cast<std::size_t>(3 * parameter.columns));
      ASSERT_TRUE(exact->read(i, row * parameter.columns, 3 * parameter.columns, part.data()).ok());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), values.begin() + row * parameter.columns))
          << parameter.name << " row " << row;
    }
    std::vector<float> rounded = values;
    if (!parameter.vector) {
      std::transform(values.begin(), values.end(), rounded.begin(), [](float v) {
        return half_to_float(float_to_half(v));
      });
      EXPECT_EQ(values_of(*half, i), rounded) << parameter.name;
      std::transform(values.begin(), values.end(), rounded.begin(), [](float v) {
        return bfloat16_to_float(float_to_bfloat16(v));
      });
      EXPECT_EQ(values_of(*brain, i), rounded) << parameter.name;
    }
  }
  EXPECT_EQ(brain->storage_type(), StorageType::bf16);
  EXPECT_EQ(folder->storage_type(), StorageType::f32);
}

TEST(ModelFolder, ConfigAndWeightsMustAgree) {
  PARBUCKLE_NEEDS_SHARED("fixtures/bad/config");
  const Refusal refusals[] = {
      {"vocab_smaller_than_rows", "[101, 32]"},
      {"layers_fewer_than_weights", "'model.layers.1."},
      {"layers_more_than_weights", "'model.layers.2."},
      {"tied_but_head_present", "'lm_head.weight' differs"},
      {"huge_vocab", "'vocab_size' is 1099511627776"},
  };
  for (const Refusal& refusal : refusals) {
    const TemporaryFolder folder;
    folder.link(shared_file("fixtures/bad/config/" + std::string(refusal.file) + ".json"),
                "config.json");
    folder.link(shared_file("fixtures/bad/config/model.safetensors"), "model.safetensors");
    expect_refusal(ModelFolder::open(folder.path()).status(), folder.path(), refusal.key_word);
  }
  for (const std::string valid : {"pretraining_tp", "activation_that_changes_maths"}) {
    const TemporaryFolder folder;
    folder.link(shared_file("fixtures/bad/config/" + valid + ".json"), "config.json");
    folder.link(shared_file("fixtures/bad/config/model.safetensors"), "model.safetensors");
    EXPECT_TRUE(ModelFolder::open(folder.path()).ok()) << valid;
  }
}

TEST(WeightFiles, IndexAndShardsMustAgree) {
  PARBUCKLE_NEEDS_SHARED("fixtures/bad/index");
  const Refusal refusals[] = {
      {"missing_shard", "'two.safetensors'"},
      {"parent_path", "../missing_shard/one.safetensors"},
      {"absolute_path", "/one.safetensors"},
      {"tensor_not_in_shard", "places tensor 'c' in 'one.safetensors'"},
      {"tensor_not_in_index", "holds tensor 'b'"},
      {"no_weight_map", "'weight_map' is missing"},
  };
  for (const Refusal& refusal : refusals) {
    const std::string folder =
        shared_file("fixtures/bad/index/" + std::string(refusal.file)).string();
    expect_refusal(WeightFiles::open_folder(folder).status(), folder, refusal.key_word);
  }
  const auto odd =
      WeightFiles::open_folder(shared_file("fixtures/bad/index/wrong_total_size").string());
  ASSERT_TRUE(odd.ok()) << odd.status().message();
  ASSERT_EQ(odd->notes().size(), 1U);
  EXPECT_NE(odd->notes()[0].find("total_size is 41"), std::string::npos);
}

TEST(WeightFiles, EveryMissingShardIsNamed) {
  const TemporaryFolder folder;
  folder.write("model.safetensors.index.json",
               R"({"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors","c":"m-3.safetensors",
                   "d":"m-4.safetensors","e":"m-5.safetensors"}})");
  const Status status = WeightFiles::open_folder(folder.path()).status();
  for (const char* const name : {"m-1", "m-2", "m-3", "m-4", "m-5"}) {
    expect_refusal(status, folder.path(), name);
  }
}

TEST(WeightFiles, ShardPathsStayInsideTheFolder) {
  for (const char* const path :
       {"../secret.safetensors", "/etc/hostname", "sub/../../x.safetensors", ""}) {
    const TemporaryFolder folder;
    folder.write("model.safetensors.index.json",
                 std::string(R"({"weight_map":{"a":")") + path + "\"}}");
    expect_refusal(WeightFiles::open_folder(folder.path()).status(), folder.path(), "without '..'");
  }
}

/// A copy of a small model with its weights linked, to be spoilt by a test.
void copy_model(const TemporaryFolder& folder, const std::string& name) {
  for (const auto& entry :
       std::filesystem::directory_iterator(shared_file("fixtures/models/" + name))) {
    const std::string file = entry.path().filename().string();
    if (file.rfind("model", 0) == 0 || file == "config.json") {
      folder.link(entry.path(), file);
    }
  }
}

/// A one-tensor safetensors file.
std::string one_tensor(const std::string& name,
                       const std::string& dtype,
                       const std::string& shape,
                       std::size_t bytes) {
  const std::string header = "{\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
                             ",\"data_offsets\":[0," + std::to_string(bytes) + "]}}";
  const std::uint64_t length = header.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + header + std::string(bytes, '\0');
}

TEST(WeightFiles, OnlyTheShardsOfTheIndexAreRead) {
  PARBUCKLE_NEEDS_SHARED("fixtures/models/llama_sharded");
  const TemporaryFolder folder;
  copy_model(folder, "llama_sharded");
  folder.write("model.safetensors", one_tensor("model.norm.weight", "F32", "[32]", 128));
  const auto model = ModelFolder::open(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto clean = ModelFolder::open(shared_file("fixtures/models/llama_sharded").string());
  const std::size_t norm = *model->find("model.norm.weight");
  EXPECT_EQ(values_of(*model, norm), values_of(*clean, norm));
}

TEST(WeightFiles, WithoutAnIndexOtherNamesAreNotWeights) {
  const TemporaryFolder folder;
  folder.write("model-00001-of-00002.safetensors", one_tensor("a", "F32", "[1]", 4));
  folder.write("pytorch_model.bin", "x");
  const Status status = WeightFiles::open_folder(folder.path()).status();
  expect_refusal(status, folder.path(), "model-00001-of-00002.safetensors");
  expect_refusal(status, folder.path(), "pytorch_model.bin");
}

/// The model's weights plus one extra tensor, through an index.
Status open_with_extra(const std::string& model,
                       const std::string& name,
                       const std::string& dtype) {
  const TemporaryFolder folder;
  folder.link(shared_file("fixtures/models/" + model + "/config.json"), "config.json");
  folder.link(shared_file("fixtures/models/" + model + "/model.safetensors"), "one.safetensors");
  folder.write("two.safetensors", one_tensor(name, dtype, "[4]", dtype == "F32" ? 16 : 4));
  const auto weights = WeightFiles::open_safetensors(folder.path("one.safetensors"));
  nlohmann::json map = {{name, "two.safetensors"}};
  for (const StoredTensor& tensor : weights->tensors()) {
    map[tensor.info.name] = "one.safetensors";
  }
  folder.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  return ModelFolder::open(folder.path()).status();
}

TEST(ModelFolder, TensorsThatTheModelDoesNotUseAreRefused) {
  PARBUCKLE_NEEDS_SHARED("fixtures/models/llama_gqa_untied");
  expect_refusal(
      open_with_extra("llama_gqa_untied", "model.layers.0.mlp.gate_proj.weight_scale", "F32"),
      "two.safetensors",
      "quantised");
  expect_refusal(open_with_extra("llama_gqa_untied", "score.weight", "F32"),
                 "two.safetensors",
                 "'score.weight'");
  EXPECT_TRUE(
      open_with_extra("llama_gqa_untied", "model.layers.0.self_attn.rotary_emb.inv_freq", "F32")
          .ok());
  EXPECT_TRUE(open_with_extra("gpt2_tied", "transformer.h.1.attn.masked_bias", "F32").ok());
  expect_refusal(open_with_extra("gpt2_tied", "transformer.h.1.attn.scale", "I8"),
                 "two.safetensors",
                 "quantised");
}

TEST(ModelFolder, PackedWeightsAreRefusedByType) {
  PARBUCKLE_NEEDS_SHARED("fixtures/models/llama_gqa_untied");
  const TemporaryFolder folder;
  std::string bytes =
      text_of_file(shared_file("fixtures/models/llama_gqa_untied/model.safetensors"));
  const std::size_t at = bytes.find("\"F32\"");
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, 5, "\"I32\"");
  folder.write("model.safetensors", bytes);
  folder.link(shared_file("fixtures/models/llama_gqa_untied/config.json"), "config.json");
  expect_refusal(ModelFolder::open(folder.path()).status(), folder.path(), "stored as I32");
}

// A tied model whose file holds the head as well: equal is noted and saved again, different is refused.
TEST(ModelFolder, TiedHeadInTheFileMustEqualTheEmbedding) {
  PARBUCKLE_NEEDS_SHARED("fixtures/models/llama_mha_tied");
  const std::string source = shared_file("fixtures/models/llama_mha_tied").string();
  const auto clean = ModelFolder::open(source);
  ASSERT_TRUE(clean.ok()) << clean.status().message();
  const Parameter& embedding = clean->parameters()[0];
  std::vector<float> values = values_of(*clean, 0);
  for (const bool equal : {true, false}) {
    const TemporaryFolder folder;
    folder.link(source + "/config.json", "config.json");
    folder.link(source + "/model.safetensors", "one.safetensors");
    std::string head = one_tensor("lm_head.weight",
                                  "F32",
                                  shape_text({embedding.rows, embedding.columns}),
                                  values.size() * sizeof(float));
    values.back() += equal ? 0.0F : 1.0F;
    std::memcpy(head.data() + head.size() - values.size() * sizeof(float),
                values.data(),
                values.size() * sizeof(float));
    folder.write("two.safetensors", head);
    nlohmann::json map = {{"lm_head.weight", "two.safetensors"}};
    for (const StoredTensor& tensor : clean->weights().tensors()) {
      map[tensor.info.name] = "one.safetensors";
    }
    folder.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
    const auto model = ModelFolder::open(folder.path());
    if (!equal) {
      expect_refusal(model.status(), "two.safetensors", "tie_word_embeddings");
      continue;
    }
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_EQ(model->saved_tensors().back(), (SavedTensor{"lm_head.weight", 0}));
    EXPECT_FALSE(model->notes().empty());
  }
}

TEST(ModelFolder, FindsTheModelThroughAFileOrAFolder) {
  PARBUCKLE_NEEDS_SHARED("fixtures");
  const std::string source = shared_file("fixtures/models/gpt2_wide").string();
  const auto by_file = ModelFolder::open(source + "/model.safetensors");
  ASSERT_TRUE(by_file.ok()) << by_file.status().message();
  EXPECT_EQ(by_file->saved_tensors().front().name, "wte.weight");  // the file's own names
  EXPECT_EQ(by_file->folder(), source);
  const TemporaryFolder folder;
  folder.link(shared_file("fixtures/gguf/llama-q8_0.gguf"), "weights.gguf");
  const auto gguf = ModelFolder::open(folder.path());
  ASSERT_TRUE(gguf.ok()) << gguf.status().message();
  EXPECT_TRUE(gguf->is_gguf());
  folder.link(shared_file("fixtures/gguf/llama-q4_0.gguf"), "other.gguf");
  expect_refusal(ModelFolder::open(folder.path()).status(), folder.path(), "several .gguf files");
  expect_refusal(ModelFolder::open(folder.path("nothing")).status(), "nothing", "no such file");
}

TEST(ModelFolder, ReadsTemplateAndEndTokens) {
  PARBUCKLE_NEEDS_SHARED("fixtures/models/llama_gqa_untied");
  const TemporaryFolder folder;
  copy_model(folder, "llama_gqa_untied");
  EXPECT_EQ(*ModelFolder::open(folder.path())->chat_template(), "");
  folder.write(
      "tokenizer_config.json",
      R"({"chat_template":[{"name":"tools","template":"t"},{"name":"default","template":"d"}]})");
  folder.write("generation_config.json", R"({"eos_token_id":[2,9]})");
  folder.write("tokenizer.json", "{}");
  const auto model = ModelFolder::open(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(*model->chat_template(), "d");
  EXPECT_EQ(model->eos_ids(), (std::vector<std::int32_t>{2, 9}));
  EXPECT_EQ(model->tokenizer_json_path(), folder.path("tokenizer.json"));
  EXPECT_EQ(model->side_files(),
            (std::vector<std::string>{
                "tokenizer.json", "tokenizer_config.json", "generation_config.json"}));
  folder.write("chat_template.jinja", "own");
  EXPECT_EQ(*model->chat_template(), "own");
}

}  // namespace
}  // namespace parbuckle
