#include "engine/checkpoint/model_writer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <sys/resource.h>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/float_formats.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/safetensors_writer.h"
#include "tests/engine/checkpoint/refusals.h"
#include "tests/engine/checkpoint/temporary_folder.h"
#include "tests/support/shared_path.h"

namespace parbuckle {
namespace {

namespace fs = std::filesystem;

/// The values of a model as they were read.
ParameterSource unchanged(const ModelFolder& model) {
  return [&model](const Parameter& parameter, std::int64_t first, std::int64_t count, float* out) {
    return model.read(*model.find(parameter.name), first, count, out);
  };
}

std::vector<std::string> names_of(const ModelFolder& model) {
  std::vector<std::string> names;
  for (const StoredTensor& tensor : model.weights().tensors()) {
    names.push_back(tensor.info.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void expect_same_values(const ModelFolder& a, const ModelFolder& b, float (*rounded)(float)) {
  ASSERT_EQ(a.parameters(), b.parameters());
  for (std::size_t i = 0; i < a.parameters().size(); ++i) {
    const auto count = a.parameters()[i].elements();
    std::vector<float> left(static_cast<std::size_t>(count));
    std::vector<float> right(left.size());
    ASSERT_TRUE(a.read(i, 0, count, left.data()).ok());
    ASSERT_TRUE(b.read(i, 0, count, right.data()).ok());
    std::transform(left.begin(), left.end(), left.begin(), rounded);
    EXPECT_EQ(left, right) << a.parameters()[i].name;
  }
}

float as_is(float value) {
  return value;
}
float as_bfloat16(float value) {
  return bfloat16_to_float(float_to_bfloat16(value));
}
float as_half(float value) {
  return half_to_float(float_to_half(value));
}

/// A fixture model with tokenizer files beside it.
void copy_with_side_files(const TemporaryFolder& folder, const std::string& name) {
  const std::string source = shared_file("fixtures/models/" + name).string();
  for (const auto& entry : fs::directory_iterator(source)) {
    const std::string file = entry.path().filename().string();
    if (file.starts_with("model") || file == "config.json") {
      folder.link(entry.path(), file);
    }
  }
  folder.link(shared_file("fixtures/tokenizers/gpt2/tokenizer.json"), "tokenizer.json");
  folder.link(shared_file("fixtures/tokenizers/gpt2/tokenizer_config.json"),
              "tokenizer_config.json");
  folder.write("generation_config.json", "{\"eos_token_id\":  2}");
}

TEST(ModelWriter, WhatIsSavedIsWhatWasRead) {
  PARBUCKLE_NEEDS_SHARED("fixtures/models");
  for (const std::string name :
       {"gpt2_tied", "llama_bias", "llama_gqa_untied", "llama_sharded", "qwen2", "qwen3"}) {
    const TemporaryFolder source;
    copy_with_side_files(source, name);
    const TemporaryFolder out;
    const auto model = ModelFolder::open(source.path());
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto report = save_model(*model, {.folder = out.path("saved")}, unchanged(*model));
    ASSERT_TRUE(report.ok()) << report.status().message();
    const auto saved = ModelFolder::open(out.path("saved"));
    ASSERT_TRUE(saved.ok()) << saved.status().message();
    EXPECT_EQ(names_of(*saved), names_of(*model)) << name;
    EXPECT_EQ(saved->config(), model->config());
    expect_same_values(*model, *saved, as_is);
    for (const char* const file :
         {"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
      EXPECT_EQ(text_of_file(out.path("saved/") + file), text_of_file(source.path(file))) << file;
    }
    // Nothing but the folder is left beside it.
    EXPECT_EQ(std::distance(fs::directory_iterator(out.path()), fs::directory_iterator()), 1);
  }
}

TEST(ModelWriter, RoundsToTheSaveTypeAndSaysSo) {
  PARBUCKLE_NEEDS_SHARED("fixtures/models/qwen3");
  const auto model = ModelFolder::open(shared_file("fixtures/models/qwen3").string());
  const TemporaryFolder out;
  const std::pair<StorageType, float (*)(float)> types[] = {{StorageType::bf16, as_bfloat16},
                                                            {StorageType::f16, as_half}};
  for (const auto& [type, rounded] : types) {
    const std::string folder = out.path(std::string(to_string(type)));
    const auto report = save_model(*model, {.folder = folder, .type = type}, unchanged(*model));
    ASSERT_TRUE(report.ok()) << report.status().message();
    const auto saved = ModelFolder::open(folder);
    ASSERT_TRUE(saved.ok()) << saved.status().message();
    EXPECT_EQ(saved->storage_type(), type);
    expect_same_values(*model, *saved, rounded);
    EXPECT_EQ(read_config_file(folder)->dtype, type == StorageType::bf16 ? "bfloat16" : "float16");
    EXPECT_EQ(saved->config(), model->config());
  }
}

TEST(ModelWriter, GgufBecomesAFolder) {
  PARBUCKLE_NEEDS_SHARED("fixtures/gguf/llama-q4_1.gguf");
  const auto model = ModelFolder::open(shared_file("fixtures/gguf/llama-q4_1.gguf").string());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const TemporaryFolder out;
  const auto report = save_model(*model,
                                 {.folder = out.path("saved"), .texts = {{"tokenizer.json", "{}"}}},
                                 unchanged(*model));
  ASSERT_TRUE(report.ok()) << report.status().message();
  const auto saved = ModelFolder::open(out.path("saved"));
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  EXPECT_EQ(saved->config(), model->config());
  expect_same_values(*model, *saved, as_is);
  EXPECT_EQ(text_of_file(out.path("saved/tokenizer.json")), "{}");
  EXPECT_EQ(saved->eos_ids(), model->eos_ids());
}

TEST(ModelWriter, ShardsAreReadBackThroughTheirIndex) {
  PARBUCKLE_NEEDS_SHARED("fixtures/models/llama_gqa_untied");
  const auto model = ModelFolder::open(shared_file("fixtures/models/llama_gqa_untied").string());
  const TemporaryFolder out;
  const auto report = save_model(
      *model, {.folder = out.path("saved"), .max_shard_bytes = 20000}, unchanged(*model));
  ASSERT_TRUE(report.ok()) << report.status().message();
  const auto saved = ModelFolder::open(out.path("saved"));
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  EXPECT_GT(saved->weights().files().size(), 2U);
  EXPECT_TRUE(saved->weights().notes().empty());  // total_size is right
  EXPECT_EQ(names_of(*saved), names_of(*model));
  expect_same_values(*model, *saved, as_is);

  // Saved again as one file over it: no shard and no index of the first save is left; foreign files are.
  std::ofstream(out.path("saved/metrics.jsonl")) << "{}\n";
  const SaveOptions again = {.folder = out.path("saved"), .overwrite = true};
  ASSERT_TRUE(save_model(*model, again, unchanged(*model)).ok());
  EXPECT_EQ(ModelFolder::open(out.path("saved"))->weights().files().size(), 1U);
  EXPECT_EQ(std::distance(fs::directory_iterator(out.path("saved")), fs::directory_iterator()), 3);
}

TEST(ModelWriter, RefusesAFolderThatHoldsFiles) {
  PARBUCKLE_NEEDS_SHARED("fixtures/models/qwen3");
  const auto model = ModelFolder::open(shared_file("fixtures/models/qwen3").string());
  const TemporaryFolder out;
  out.write("notes.txt", "mine");
  expect_refusal(save_model(*model, {.folder = out.path()}, unchanged(*model)).status(),
                 out.path(),
                 "not empty");
  EXPECT_EQ(std::distance(fs::directory_iterator(out.path()), fs::directory_iterator()), 1);
  expect_refusal(check_output_folder(out.path("notes.txt"), true), "notes.txt", "is a file");
}

TEST(ModelWriter, AFailedSaveLeavesNothing) {
  PARBUCKLE_NEEDS_SHARED("fixtures/models/qwen3");
  const auto model = ModelFolder::open(shared_file("fixtures/models/qwen3").string());
  const TemporaryFolder out;
  const ParameterSource broken =
      [&](const Parameter& p, std::int64_t first, std::int64_t count, float* values) {
        return p.name == "model.norm.weight" ? io_error("the drive said no")
                                             : unchanged(*model)(p, first, count, values);
      };
  EXPECT_EQ(save_model(*model, {.folder = out.path("saved")}, broken).status().message(),
            "the drive said no");
  EXPECT_TRUE(fs::is_empty(out.path()));

  const ParameterSource large =
      [](const Parameter&, std::int64_t, std::int64_t count, float* values) {
        std::fill_n(values, count, 70000.0F);
        return Status();
      };
  expect_refusal(
      save_model(*model, {.folder = out.path("saved"), .type = StorageType::f16}, large).status(),
      "saved",
      "cannot be saved as F16");
  const ParameterSource nan =
      [](const Parameter&, std::int64_t, std::int64_t count, float* values) {
        std::fill_n(values, count, std::numeric_limits<float>::quiet_NaN());
        return Status();
      };
  expect_refusal(save_model(*model, {.folder = out.path("saved")}, nan).status(), "saved", "nan");
  EXPECT_TRUE(fs::is_empty(out.path()));
}

TEST(ModelWriter, AFileSizeLimitIsFoundBeforeAnythingIsWritten) {
  PARBUCKLE_NEEDS_SHARED("fixtures/models/qwen3");
  const auto model = ModelFolder::open(shared_file("fixtures/models/qwen3").string());
  const TemporaryFolder out;
  struct rlimit old {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const struct rlimit small = {4096, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status =
      save_model(*model, {.folder = out.path("saved")}, unchanged(*model)).status();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  expect_refusal(status, out.path(), "ulimit -f");
  EXPECT_EQ(status.code(), Code::resource_exhausted);
  EXPECT_TRUE(fs::is_empty(out.path()));
}

TEST(SafetensorsWriter, PadsItsHeaderAndKeepsOrder) {
  const TemporaryFolder folder;
  auto writer = SafetensorsWriter::create(folder.path("x.safetensors"),
                                          {{"empty", StorageType::f32, {0, 3}},
                                           {"b", StorageType::bf16, {3}},
                                           {"a", StorageType::f32, {}}});
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  const std::vector<float> b = {1.0F, -2.0F, 0.5F};
  ASSERT_TRUE(writer->write(std::span(b).first(2)).ok());
  ASSERT_TRUE(writer->write(std::span(b).subspan(2)).ok());
  EXPECT_FALSE(fs::exists(folder.path("x.safetensors")));
  ASSERT_TRUE(writer->write(std::vector<float>{7.0F}).ok());
  ASSERT_TRUE(writer->finish().ok());
  const InputFile file = *InputFile::open(folder.path("x.safetensors"));
  const auto read = read_safetensors(file);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->data_begin % 8, 0);
  EXPECT_EQ(read->metadata.at("format"), "pt");
  ASSERT_EQ(read->tensors.size(), 3U);
  EXPECT_EQ(read->tensors[1].name, "b");
  EXPECT_EQ(read->tensors[2].end - read->tensors[2].begin, 4);
}

TEST(SafetensorsWriter, MissingValuesAreAnErrorAndLeaveNoFile) {
  const TemporaryFolder folder;
  {
    auto writer =
        SafetensorsWriter::create(folder.path("x.safetensors"), {{"a", StorageType::f32, {2}}});
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->write(std::vector<float>{7.0F}).ok());
    expect_refusal(writer->finish(), "x.safetensors", "not written completely");
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace parbuckle
