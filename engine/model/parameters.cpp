#include "engine/model/parameters.h"

#include <utility>

namespace parbuckle {
namespace {

class List {
 public:
  void matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
    items_.push_back({prefix_ + name + ".weight", rows, columns, false});
  }
  void vector(const std::string& name, std::int64_t size) {
    items_.push_back({prefix_ + name, size, 1, true});
  }
  void bias(bool present, const std::string& name, std::int64_t size) {
    if (present) {
      vector(name + ".bias", size);
    }
  }
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }
  std::vector<Parameter> take() { return std::move(items_); }

 private:
  std::string prefix_;
  std::vector<Parameter> items_;
};

std::vector<Parameter> llama_parameters(const ModelConfig& c) {
  const std::int64_t q = c.heads * c.head_dim;
  const std::int64_t k = c.kv_heads * c.head_dim;
  List list;
  list.matrix("model.embed_tokens", c.vocab_size, c.hidden_size);
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    list.set_prefix("model.layers." + std::to_string(layer) + ".");
    list.vector("input_layernorm.weight", c.hidden_size);
    list.matrix("self_attn.q_proj", q, c.hidden_size);
    list.bias(c.qkv_bias, "self_attn.q_proj", q);
    list.matrix("self_attn.k_proj", k, c.hidden_size);
    list.bias(c.qkv_bias, "self_attn.k_proj", k);
    list.matrix("self_attn.v_proj", k, c.hidden_size);
    list.bias(c.qkv_bias, "self_attn.v_proj", k);
    if (c.qk_norm) {
      list.vector("self_attn.q_norm.weight", c.head_dim);
      list.vector("self_attn.k_norm.weight", c.head_dim);
    }
    list.matrix("self_attn.o_proj", c.hidden_size, q);
    list.bias(c.output_bias, "self_attn.o_proj", c.hidden_size);
    list.vector("post_attention_layernorm.weight", c.hidden_size);
    list.matrix("mlp.gate_proj", c.intermediate_size, c.hidden_size);
    list.bias(c.mlp_bias, "mlp.gate_proj", c.intermediate_size);
    list.matrix("mlp.up_proj", c.intermediate_size, c.hidden_size);
    list.bias(c.mlp_bias, "mlp.up_proj", c.intermediate_size);
    list.matrix("mlp.down_proj", c.hidden_size, c.intermediate_size);
    list.bias(c.mlp_bias, "mlp.down_proj", c.hidden_size);
  }
  list.set_prefix("");
  list.vector("model.norm.weight", c.hidden_size);
  if (!c.tied) {
    list.matrix("lm_head", c.vocab_size, c.hidden_size);
  }
  return list.take();
}

std::vector<Parameter> gpt2_parameters(const ModelConfig& c) {
  const std::int64_t h = c.hidden_size;
  List list;
  list.matrix("transformer.wte", c.vocab_size, h);
  list.matrix("transformer.wpe", c.max_positions, h);
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    list.set_prefix("transformer.h." + std::to_string(layer) + ".");
    list.vector("ln_1.weight", h);
    list.vector("ln_1.bias", h);
    list.matrix("attn.c_attn", h, 3 * h);
    list.vector("attn.c_attn.bias", 3 * h);
    list.matrix("attn.c_proj", h, h);
    list.vector("attn.c_proj.bias", h);
    list.vector("ln_2.weight", h);
    list.vector("ln_2.bias", h);
    list.matrix("mlp.c_fc", h, c.intermediate_size);
    list.vector("mlp.c_fc.bias", c.intermediate_size);
    list.matrix("mlp.c_proj", c.intermediate_size, h);
    list.vector("mlp.c_proj.bias", h);
  }
  list.set_prefix("transformer.");
  list.vector("ln_f.weight", h);
  list.vector("ln_f.bias", h);
  list.set_prefix("");
  if (!c.tied) {
    list.matrix("lm_head", c.vocab_size, h);
  }
  return list.take();
}

}  // namespace

std::vector<Parameter> parameters(const ModelConfig& config) {
  return config.shape == ModelShape::llama ? llama_parameters(config) : gpt2_parameters(config);
}

}  // namespace parbuckle
