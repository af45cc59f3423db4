#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/config_json.h"
#include "engine/model/parameters.h"
#include "tests/engine/checkpoint/refusals.h"
#include "tests/support/shared_path.h"

namespace parbuckle {
namespace {

nlohmann::json json_of(const std::string& name) {
  return nlohmann::json::parse(std::ifstream(shared_file(name)));
}

/// "embedding", "attention", "mlp", "norm" or "head", as the reference counts roles.
std::string role_of(const std::string& name) {
  const auto holds = [&name](const char* part) { return name.find(part) != std::string::npos; };
  if (holds("embed_tokens") || holds(".wte.") || holds(".wpe.")) {
    return "embedding";
  }
  if (holds("norm") || holds(".ln_")) {
    return "norm";
  }
  if (holds("lm_head")) {
    return "head";
  }
  return holds("attn") ? "attention" : "mlp";
}

void expect_counts(const ModelConfig& model, const nlohmann::json& expected) {
  std::map<std::string, std::int64_t> roles = {
      {"embedding", 0}, {"attention", 0}, {"mlp", 0}, {"norm", 0}, {"head", 0}};
  std::int64_t total = 0;
  for (const Parameter& parameter : parameters(model)) {
    roles[role_of(parameter.name)] += parameter.elements();
    total += parameter.elements();
  }
  EXPECT_EQ(total, expected["parameters"].get<std::int64_t>());
  EXPECT_EQ(nlohmann::json(roles), expected["by_role"]);
}

void expect_resolved(const ModelConfig& model, const nlohmann::json& resolved) {
  EXPECT_EQ(model.layers, resolved["layers"]);
  EXPECT_EQ(model.hidden_size, resolved["hidden"]);
  EXPECT_EQ(model.heads, resolved["heads"]);
  EXPECT_EQ(model.kv_heads, resolved["kv_heads"]);
  EXPECT_EQ(model.head_dim, resolved["head_dim"]);
  EXPECT_EQ(model.vocab_size, resolved["vocab"]);
  EXPECT_EQ(model.max_positions, resolved["positions"]);
  EXPECT_EQ(model.norm_eps, static_cast<float>(resolved["norm_eps"].get<double>()));
  std::int64_t windowed = 0;
  for (const std::int32_t window : model.windows) {
    windowed += window > 0 ? 1 : 0;
    EXPECT_TRUE(window == 0 || window == resolved["window"]);
  }
  EXPECT_EQ(windowed, resolved["window_layers"]);
  if (!resolved["rope"].is_null()) {
    EXPECT_EQ(model.rope.theta, resolved["rope"]["rope_theta"]);
    const std::map<std::string, RopeType> types = {
        {"default", RopeType::none}, {"linear", RopeType::linear}, {"llama3", RopeType::llama3}};
    EXPECT_EQ(model.rope.type, types.at(resolved["rope"]["rope_type"]));
  }
}

TEST(Config, EveryPublishedConfigIsReadOrRefusedByName) {
  PARBUCKLE_NEEDS_SHARED("fixtures/configs/expected.json");
  const std::set<std::string> known = {"llama", "mistral", "qwen2", "qwen3", "gpt2"};
  int read = 0;
  int refused = 0;
  const nlohmann::json all = json_of("fixtures/configs/expected.json");
  for (const auto& [name, expected] : all.items()) {
    SCOPED_TRACE(name);
    const std::string path = shared_file("fixtures/configs/" + name + "/config.json").string();
    const auto config = read_config_file(path);
    const nlohmann::json config_json = json_of("fixtures/configs/" + name + "/config.json");
    const std::string type = config_json.at("model_type");
    if (expected["support"] == "supported" && known.contains(type)) {
      ASSERT_TRUE(config.ok()) << config.status().message();
      EXPECT_EQ(config->model.model_type, type);
      EXPECT_EQ(config->model.tied, expected["tied"].get<bool>());
      expect_counts(config->model, expected);
      expect_resolved(config->model, expected["resolved"]);
      ++read;
      continue;
    }
    ASSERT_FALSE(config.ok());
    expect_refusal(config.status(), path, known.contains(type) ? "" : "'model_type'");
    EXPECT_NE(config.status().message().find(type), std::string::npos) << config.status().message();
    ++refused;
  }
  EXPECT_EQ(read, 43);
  EXPECT_EQ(read + refused, 75);
}

// A published model as the newer library writes it means the same.
TEST(Config, BothSpellingsGiveOneConfig) {
  PARBUCKLE_NEEDS_SHARED("fixtures/configs/expected.json");
  for (const std::string name : {"gpt2", "llama3_2_1b_instruct", "qwen2_5_7b", "qwen3_0_6b"}) {
    const auto older = read_config_file(shared_file("fixtures/configs/" + name).string());
    const auto newer =
        read_config_file(shared_file("fixtures/configs/" + name + "_resaved").string());
    ASSERT_TRUE(older.ok() && newer.ok()) << name;
    EXPECT_EQ(older->model, newer->model) << name;
    EXPECT_EQ(older->eos_ids, newer->eos_ids) << name;
    if (name != "gpt2") {
      EXPECT_EQ(older->dtype, "bfloat16");
      EXPECT_EQ(newer->dtype, "bfloat16");
    }
  }
}

TEST(Config, RefusesEveryMalformedFixtureByName) {
  PARBUCKLE_NEEDS_SHARED("fixtures/bad/config");
  const Refusal refusals[] = {
      {"array", "JSON object"},
      {"heads_not_divisible_by_kv", "'num_key_value_heads' is 3"},
      {"hidden_not_divisible", "'hidden_size' is 32; it must be a multiple of"},
      {"huge_vocab", "'vocab_size' is 1099511627776"},
      {"missing_hidden_size", "'hidden_size' is missing"},
      {"missing_model_type", "neither 'model_type' nor 'architectures'"},
      {"nan", "not valid JSON"},
      {"negative_size", "'intermediate_size' is -52"},
      {"not_json", "not valid JSON"},
      {"odd_head_dim", "'head_dim' is 7"},
      {"quantization_config", "gptq"},
      {"rope_factor_missing", "'rope_scaling.factor' is missing"},
      {"rope_factor_zero", "'rope_scaling.factor' is 0.0"},
      {"size_as_string", "'hidden_size' is \"32\""},
      {"size_fractional", "'hidden_size' is 32.5"},
      {"unknown_activation", "'hidden_act' is \"swoosh\""},
      {"unknown_model_type", "llama, mistral, qwen2, qwen3, gpt2"},
      {"unknown_rope_type", "'spiral'"},
      {"zero_layers", "'num_hidden_layers' is 0"},
  };
  for (const Refusal& refusal : refusals) {
    const std::string path =
        shared_file("fixtures/bad/config/" + std::string(refusal.file) + ".json").string();
    expect_refusal(read_config_file(path).status(), path, refusal.key_word);
  }
}

TEST(Config, ReadsTheValidOddities) {
  PARBUCKLE_NEEDS_SHARED("fixtures/bad/config");
  EXPECT_TRUE(read_config(shared_file("fixtures/bad/config/pretraining_tp.json").string()).ok());
  const auto gelu =
      read_config(shared_file("fixtures/bad/config/activation_that_changes_maths.json").string());
  ASSERT_TRUE(gelu.ok()) << gelu.status().message();
  EXPECT_EQ(gelu->activation, Activation::gelu_exact);
}

/// A small llama config with some keys replaced.
Result<ConfigFile> with(const char* changes, const char* family = "llama") {
  nlohmann::json config = {{"model_type", family},
                           {"vocab_size", 264},
                           {"hidden_size", 64},
                           {"intermediate_size", 128},
                           {"num_hidden_layers", 4},
                           {"num_attention_heads", 4},
                           {"num_key_value_heads", 2}};
  config.update(nlohmann::json::parse(changes));
  return parse_config(config.dump(), "config.json");
}

TEST(Config, HeadDimensionIsTakenAsStated) {
  const char* const odd =
      R"({"hidden_size":1792,"num_attention_heads":24,"num_key_value_heads":8,"head_dim":128})";
  const auto config = with(odd);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->model.head_dim, 128);
  const std::vector<Parameter> list = parameters(config->model);
  EXPECT_EQ(list[2].rows, 3072);
  EXPECT_EQ(list[3].rows, 1024);
  expect_refusal(
      with(
          R"({"hidden_size":1792,"num_attention_heads":24,"num_key_value_heads":8,"head_dim":null})")
          .status(),
      "config.json",
      "multiple of 'num_attention_heads' 24");
  EXPECT_EQ(with(R"({"num_key_value_heads":null})")->model.kv_heads, 4);
  EXPECT_EQ(with("{}", "qwen3")->model.head_dim, 128);
  EXPECT_EQ(with("{}")->model.head_dim, 16);
}

TEST(Config, RotaryBaseAndScalingInBothPlaces) {
  EXPECT_EQ(with("{}")->model.rope.theta, 10000);
  EXPECT_EQ(with(R"({"rope_parameters":{"rope_type":"default","rope_theta":500000.0}})")
                ->model.rope.theta,
            500000);
  expect_refusal(with(R"({"rope_theta":1e4,"rope_parameters":{"rope_theta":5e5}})").status(),
                 "config.json",
                 "'rope_theta'");
  expect_refusal(with(R"({"rope_theta":0})").status(), "config.json", "'rope_theta' is 0");
  const auto linear = with(R"({"rope_scaling":{"type":"linear","factor":4.0}})");
  ASSERT_TRUE(linear.ok()) << linear.status().message();
  EXPECT_EQ(inverse_frequencies(linear->model)[0], 0.25F);
  EXPECT_TRUE(with(R"({"rope_scaling":{"type":"linear","rope_type":"linear","factor":4}})").ok());
  for (const char* const wrong :
       {R"({"rope_scaling":{"type":"linear","rope_type":"llama3","factor":4}})",
        R"({"rope_scaling":{"rope_type":"frob"}})",
        R"({"rope_scaling":{"rope_type":"yarn","factor":4}})",
        R"({"rope_scaling":{"rope_type":"dynamic","factor":4}})",
        R"({"rope_scaling":{"rope_type":"llama3","factor":4}})",
        R"({"rope_scaling":{"rope_type":"linear","factor":4,"beta_fast":3}})",
        R"({"rope_scaling":[1]})"}) {
    expect_refusal(with(wrong).status(), "config.json", "rope");
  }
}

// The published table of the llama3 method (head_dim 128, theta 500000, factor 8, low 1, high 4, original 8192).
TEST(Config, Llama3FrequenciesMatchThePublishedTable) {
  const auto config =
      with(R"({"head_dim":128,"rope_theta":500000.0,"rope_scaling":{"rope_type":"llama3",
      "factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192}})");
  ASSERT_TRUE(config.ok()) << config.status().message();
  const std::vector<float> table = inverse_frequencies(config->model);
  const std::map<std::size_t, double> expected = {{28, 3.211446e-03},
                                                  {29, 2.166571e-03},
                                                  {32, 5.248462e-04},
                                                  {34, 1.785078e-04},
                                                  {35, 9.556212e-05},
                                                  {63, 3.068926e-07}};
  for (const auto& [index, value] : expected) {
    EXPECT_NEAR(static_cast<double>(table[index]) / value, 1, 1e-6) << index;
  }
}

TEST(Config, SlidingWindowPerFamilyAndLayer) {
  using Windows = std::vector<std::int32_t>;
  EXPECT_EQ(with(R"({"sliding_window":7})", "mistral")->model.windows, Windows(4, 7));
  EXPECT_EQ(with(R"({"sliding_window":null})", "mistral")->model.windows, Windows(4, 0));
  EXPECT_EQ(with(R"({"sliding_window":0})", "mistral")->model.windows, Windows(4, 0));
  EXPECT_EQ(with("{}", "mistral")->model.windows, Windows(4, 4096));
  EXPECT_EQ(with(R"({"sliding_window":5,"max_window_layers":1})", "qwen2")->model.windows,
            Windows(4, 0));
  EXPECT_EQ(with(R"({"sliding_window":5,"use_sliding_window":true,"max_window_layers":1})", "qwen2")
                ->model.windows,
            (Windows{0, 5, 5, 5}));
  EXPECT_EQ(
      with(R"({"sliding_window":5,"use_sliding_window":true,"layer_types":["sliding_attention",
      "full_attention","full_attention","sliding_attention"]})",
           "qwen3")
          ->model.windows,
      (Windows{5, 0, 0, 5}));
  expect_refusal(with(R"({"sliding_window":7})").status(), "config.json", "'sliding_window' is 7");
  expect_refusal(with(R"({"layer_types":["full_attention"]})", "qwen2").status(),
                 "config.json",
                 "layer_types");
  expect_refusal(
      with(
          R"({"layer_types":["full_attention","sliding_attention","full_attention","full_attention"]})",
          "qwen2")
          .status(),
      "config.json",
      "layer_types[1]");
}

TEST(Config, BiasesFollowTheFamily) {
  const ModelConfig qwen2 = with("{}", "qwen2")->model;
  EXPECT_TRUE(qwen2.qkv_bias && !qwen2.output_bias && !qwen2.mlp_bias);
  const ModelConfig llama = with(R"({"attention_bias":true,"mlp_bias":true})")->model;
  EXPECT_TRUE(llama.qkv_bias && llama.output_bias && llama.mlp_bias);
  EXPECT_TRUE(with("{}", "qwen3")->model.qk_norm);
  expect_refusal(
      with(R"({"attention_bias":true})", "mistral").status(), "config.json", "attention_bias");
}

TEST(Config, WhatChangesTheMathematicsIsRefusedByKeyAndValue) {
  for (const char* const wrong : {R"({"quantization_config":{"quant_method":"fp8"}})",
                                  R"({"partial_rotary_factor":0.5})",
                                  R"({"rope_interleaved":true})",
                                  R"({"logit_scale":0.0625})",
                                  R"({"final_logit_softcapping":30.0})",
                                  R"({"num_experts":8})",
                                  R"({"residual_multiplier":0.22})"}) {
    const nlohmann::json key = nlohmann::json::parse(wrong);
    expect_refusal(with(wrong).status(), "config.json", key.begin().key().c_str());
  }
  EXPECT_NE(
      with(R"({"quantization_config":{"quant_method":"fp8"}})").status().message().find("fp8"),
      std::string::npos);
  expect_refusal(with("{}", "gemma").status(), "config.json", "'gemma'");
  expect_refusal(with(R"({"architectures":["LlamaForSequenceClassification"]})").status(),
                 "config.json",
                 "LlamaForSequenceClassification");
  expect_refusal(
      with(R"({"torch_dtype":"float16","dtype":"bfloat16"})").status(), "config.json", "dtype");
}

TEST(Config, StrictJson) {
  expect_refusal(
      parse_config(R"({"a":1,"a":2})", "config.json").status(), "config.json", "'a' appears twice");
  expect_refusal(parse_config("{\"a\":" + std::string(20000, '[') + std::string(20000, ']') + "}",
                              "config.json")
                     .status(),
                 "config.json",
                 "nested deeper than 64");
  expect_refusal(parse_config("{} x", "config.json").status(), "config.json", "not valid JSON");
  expect_refusal(parse_config("{\"a\":\"\xff\"}", "config.json").status(), "config.json", "UTF-8");
}

TEST(Config, DropoutAndUnknownKeysAreNoted) {
  const auto config = with(R"({"attention_dropout":0.1,"my_key":1})");
  ASSERT_TRUE(config.ok()) << config.status().message();
  ASSERT_EQ(config->notes.size(), 2U);
  EXPECT_NE(config->notes[0].find("attention_dropout"), std::string::npos);
  EXPECT_NE(config->notes[1].find("my_key"), std::string::npos);
  EXPECT_TRUE(with("{}")->notes.empty());
}

TEST(Config, GenerationConfigKeepsEveryEndToken) {
  const auto config = parse_generation_config(
      R"({"bos_token_id":1,"eos_token_id":[2,7],"do_sample":true,"temperature":0.6,"top_p":0.9,"top_k":50})",
      "generation_config.json");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->eos_ids, (std::vector<std::int32_t>{2, 7}));
  EXPECT_EQ(config->bos_id, 1);
  EXPECT_EQ(config->pad_id, std::nullopt);
  EXPECT_EQ(config->do_sample, true);
  EXPECT_EQ(config->temperature, 0.6);
  EXPECT_EQ(config->top_k, 50);
}

TEST(Config, GgufMetadataGivesTheFolderConfig) {
  PARBUCKLE_NEEDS_SHARED("fixtures/gguf/llama");
  const auto folder = read_config(shared_file("fixtures/gguf/llama").string());
  const InputFile file = *InputFile::open(shared_file("fixtures/gguf/llama-q4_0.gguf").string());
  const auto gguf = read_gguf(file);
  ASSERT_TRUE(folder.ok() && gguf.ok()) << folder.status().message() << gguf.status().message();
  const auto config = config_from_gguf(*gguf);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(*config, *folder);
  const InputFile vocabulary =
      *InputFile::open(shared_file("fixtures/gguf/tokenizer-gpt2.gguf").string());
  expect_refusal(config_from_gguf(*read_gguf(vocabulary)).status(),
                 "tokenizer-gpt2.gguf",
                 "token_embd.weight");
}

}  // namespace
}  // namespace parbuckle
