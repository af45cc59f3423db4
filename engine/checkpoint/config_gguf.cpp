#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "engine/checkpoint/config_json.h"
#include "engine/checkpoint/quote.h"

namespace parbuckle {
namespace {

constexpr std::int64_t most_layers = 4096;
constexpr std::int64_t widest = 1 << 24;

class GgufConfig {
 public:
  explicit GgufConfig(const Gguf& gguf) : gguf_(gguf) {}

  Result<ModelConfig> read() {
    if (gguf_.architecture != "llama") {
      return unsupported(gguf_.file + ": general.architecture is " + quote(gguf_.architecture) +
                         ", which is not implemented; allowed is llama");
    }
    model_.model_type = "llama";
    model_.shape = ModelShape::llama;
    model_.hidden_size = size("embedding_length", widest);
    model_.intermediate_size = size("feed_forward_length", widest);
    model_.layers = size("block_count", most_layers);
    model_.heads = size("attention.head_count", widest);
    model_.kv_heads = gguf_.has("llama.attention.head_count_kv")
                          ? size("attention.head_count_kv", widest)
                          : model_.heads;
    model_.max_positions = size("context_length", std::numeric_limits<std::int32_t>::max());
    model_.norm_eps = static_cast<float>(positive("attention.layer_norm_rms_epsilon", 0));
    PARBUCKLE_TRY(fault_);
    PARBUCKLE_TRY(read_heads());
    PARBUCKLE_TRY(read_rope());
    PARBUCKLE_TRY(read_tensors());
    model_.windows.assign(static_cast<std::size_t>(model_.layers), 0);
    model_.bos_id = token_id("tokenizer.ggml.bos_token_id");
    model_.eos_id = token_id("tokenizer.ggml.eos_token_id");
    PARBUCKLE_TRY(fault_);
    return std::move(model_);
  }

 private:
  Status refuse(const std::string& key,
                const std::string& found,
                const std::string& allowed) const {
    return invalid(gguf_.file + ": " + quote(key) + " is " + found + "; it must be " + allowed);
  }
  void keep(Status status) {
    if (fault_.ok()) {
      fault_ = std::move(status);
    }
  }

  std::int64_t size(const std::string& name, std::int64_t most) {
    const std::string key = "llama." + name;
    const auto* const value = gguf_.find<std::int64_t>(key);
    if (value == nullptr || *value < 1 || *value > most) {
      const std::string found = value != nullptr ? std::to_string(*value)
                                : gguf_.has(key) ? "no single integer"
                                                 : "missing";
      keep(refuse(key, found, "an integer from 1 to " + std::to_string(most)));
      return 1;
    }
    return *value;
  }

  /// Finite and > 0; `otherwise` where the key is absent, unless that is 0: then the key is required.
  double positive(const std::string& name, double otherwise) {
    const std::string key = "llama." + name;
    if (!gguf_.has(key) && otherwise > 0) {
      return otherwise;
    }
    const auto* const value = gguf_.find<double>(key);
    if (value == nullptr || !std::isfinite(*value) || *value <= 0) {
      keep(refuse(key,
                  value != nullptr ? std::to_string(*value) : "missing or no float",
                  "a float greater than 0"));
      return 1;
    }
    return *value;
  }

  std::int32_t token_id(const std::string& key) {
    const auto* const value = gguf_.find<std::int64_t>(key);
    if (value == nullptr) {
      return -1;
    }
    if (*value < 0 || *value >= model_.vocab_size) {
      keep(refuse(
          key, std::to_string(*value), "a token id below " + std::to_string(model_.vocab_size)));
      return -1;
    }
    return static_cast<std::int32_t>(*value);
  }

  Status read_heads() {
    if (model_.heads % model_.kv_heads != 0) {
      return refuse("llama.attention.head_count_kv",
                    std::to_string(model_.kv_heads),
                    "a divisor of 'llama.attention.head_count' " + std::to_string(model_.heads));
    }
    if (gguf_.has("llama.attention.key_length")) {
      model_.head_dim = size("attention.key_length", widest);
    } else if (model_.hidden_size % model_.heads == 0) {
      model_.head_dim = model_.hidden_size / model_.heads;
    } else {
      return refuse("llama.embedding_length",
                    std::to_string(model_.hidden_size),
                    "a multiple of 'llama.attention.head_count' " + std::to_string(model_.heads));
    }
    PARBUCKLE_TRY(fault_);
    for (const std::string name : {"attention.value_length", "rope.dimension_count"}) {
      if (gguf_.has("llama." + name) && size(name, widest) != model_.head_dim) {
        keep(refuse("llama." + name,
                    std::to_string(size(name, widest)),
                    "the head's " + std::to_string(model_.head_dim)));
      }
    }
    if (model_.head_dim % 2 != 0 ||
        model_.heads * model_.head_dim > std::numeric_limits<std::int32_t>::max()) {
      keep(refuse("llama.attention.key_length",
                  std::to_string(model_.head_dim),
                  "even, and below 2^31 times the heads"));
    }
    model_.attention_scale =
        static_cast<float>(1 / std::sqrt(static_cast<double>(model_.head_dim)));
    return fault_;
  }

  Status read_rope() {
    model_.rope.theta = positive("rope.freq_base", 10000);
    const auto* const type = gguf_.find<std::string>("llama.rope.scaling.type");
    if (gguf_.has("llama.rope.scale_linear")) {
      model_.rope.type = RopeType::linear;
      model_.rope.factor = positive("rope.scale_linear", 1);
    }
    if (type != nullptr && *type == "linear") {
      model_.rope.type = RopeType::linear;
      model_.rope.factor = positive("rope.scaling.factor", 0);
    } else if (type != nullptr && *type != "none") {
      return unsupported(gguf_.file + ": 'llama.rope.scaling.type' is " + quote(*type) +
                         ", which is not implemented; allowed are none, linear");
    }
    if (model_.rope.type == RopeType::linear && model_.rope.factor == 1) {
      model_.rope.type = RopeType::none;
    }
    const auto* const experts = gguf_.find<std::int64_t>("llama.expert_count");
    if (experts != nullptr && *experts != 0) {
      return unsupported(gguf_.file + ": 'llama.expert_count' is " + std::to_string(*experts) +
                         "; experts are not implemented, allowed is 0");
    }
    const auto* const window = gguf_.find<std::int64_t>("llama.attention.sliding_window");
    if (window != nullptr && *window != 0) {
      return unsupported(gguf_.file + ": 'llama.attention.sliding_window' is " +
                         std::to_string(*window) + "; allowed is 0 for this architecture");
    }
    return fault_;
  }

  [[nodiscard]] const TensorInfo* tensor(std::string_view name) const {
    const auto at = std::find_if(gguf_.tensors.begin(),
                                 gguf_.tensors.end(),
                                 [&](const TensorInfo& entry) { return entry.name == name; });
    return at == gguf_.tensors.end() ? nullptr : &*at;
  }

  /// What the metadata does not say is read off the table of tensors.
  Status read_tensors() {
    const TensorInfo* const embedding = tensor("token_embd.weight");
    if (embedding == nullptr || embedding->shape.size() != 2) {
      return invalid(gguf_.file + ": tensor 'token_embd.weight' is missing or no matrix");
    }
    model_.vocab_size = embedding->shape[0];
    if (gguf_.has("llama.vocab_size") &&
        size("vocab_size", std::numeric_limits<std::int32_t>::max()) != model_.vocab_size) {
      keep(refuse("llama.vocab_size",
                  std::to_string(size("vocab_size", std::numeric_limits<std::int32_t>::max())),
                  "the rows of 'token_embd.weight', " + std::to_string(model_.vocab_size)));
    }
    if (model_.vocab_size < 1 || model_.vocab_size > std::numeric_limits<std::int32_t>::max()) {
      return invalid(gguf_.file + ": tensor 'token_embd.weight' has " +
                     std::to_string(model_.vocab_size) + " rows; 1 to 2^31 - 1 are allowed");
    }
    if (tensor("rope_freqs.weight") != nullptr) {
      return unsupported(gguf_.file +
                         ": tensor 'rope_freqs.weight' scales rotary frequencies one by "
                         "one, which is not implemented for GGUF");
    }
    model_.tied = tensor("output.weight") == nullptr;
    model_.qkv_bias = tensor("blk.0.attn_q.bias") != nullptr;
    model_.output_bias = tensor("blk.0.attn_output.bias") != nullptr;
    model_.mlp_bias = tensor("blk.0.ffn_gate.bias") != nullptr;
    if (model_.qkv_bias != model_.output_bias) {
      return unsupported(gguf_.file + ": has biases on " +
                         (model_.qkv_bias ? "'attn_q' but not on 'attn_output'"
                                          : "'attn_output' but not on 'attn_q'") +
                         "; both or none are allowed");
    }
    return fault_;
  }

  const Gguf& gguf_;
  ModelConfig model_;
  Status fault_;
};

}  // namespace

Result<ModelConfig> config_from_gguf(const Gguf& gguf) {
  return GgufConfig(gguf).read();
}

}  // namespace parbuckle
