#include "tests/support/random_model.h"

#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace parbuckle {
namespace {

struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
};

std::vector<Tensor> tensors_of(const RandomModel& m) {
  std::vector<Tensor> all{{"model.embed_tokens.weight", {m.vocabulary, m.width}},
                          {"model.norm.weight", {m.width}}};
  if (!m.tied) {
    all.push_back({"lm_head.weight", {m.vocabulary, m.width}});
  }
  for (std::int64_t l = 0; l < m.layers; ++l) {
    const std::string layer = "model.layers." + std::to_string(l) + ".";
    for (const char* const norm : {"input_layernorm", "post_attention_layernorm"}) {
      all.push_back({layer + norm + ".weight", {m.width}});
    }
    for (const char* const projection : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
      all.push_back({layer + "self_attn." + projection + ".weight", {m.width, m.width}});
    }
    for (const char* const projection : {"gate_proj", "up_proj"}) {
      all.push_back({layer + "mlp." + projection + ".weight", {m.intermediate, m.width}});
    }
    all.push_back({layer + "mlp.down_proj.weight", {m.width, m.intermediate}});
  }
  return all;
}

std::int64_t elements(const Tensor& tensor) {
  std::int64_t product = 1;
  for (const std::int64_t d : tensor.shape) {
    product *= d;
  }
  return product;
}

std::string header_of(const std::vector<Tensor>& tensors) {
  nlohmann::json header;
  std::int64_t end = 0;
  for (const Tensor& tensor : tensors) {
    const std::int64_t begin = end;
    end += 4 * elements(tensor);
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

void write_random_model(const std::filesystem::path& folder, const RandomModel& m) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << nlohmann::json{
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"vocab_size", m.vocabulary},
      {"hidden_size", m.width},
      {"intermediate_size", m.intermediate},
      {"num_hidden_layers", m.layers},
      {"num_attention_heads", m.heads},
      {"num_key_value_heads", m.heads},
      {"max_position_embeddings", 4096},
      {"rms_norm_eps", 1e-5},
      {"rope_theta", 10000.0},
      {"hidden_act", "silu"},
      {"tie_word_embeddings", m.tied},
      {"torch_dtype", "float32"},
      {"bos_token_id", 1},
      {"eos_token_id", 2}}.dump(1);
  const std::vector<Tensor> tensors = tensors_of(m);
  const std::string header = header_of(tensors);
  const std::uint64_t length = header.size();
  std::ofstream out(folder / "model.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << header;
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.02F);
  for (const Tensor& tensor : tensors) {
    std::vector<float> values(static_cast<std::size_t>(elements(tensor)), 1.0F);
    if (tensor.shape.size() > 1) {
      for (float& value : values) {
        value = normal(random);
      }
    }
    out.write(reinterpret_cast<const char*>(values.data()),
              static_cast<std::streamsize>(values.size() * sizeof(float)));
  }
}

}  // namespace parbuckle
