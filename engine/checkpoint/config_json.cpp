#include "engine/checkpoint/config_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "engine/checkpoint/config_keys.h"
#include "engine/checkpoint/config_rope.h"
#include "engine/checkpoint/input_file.h"
#include "engine/checkpoint/quote.h"

namespace parbuckle {
namespace {

constexpr std::int64_t longest_config = 4 << 20;
constexpr std::int64_t most_layers = 4096;
constexpr std::int64_t widest = 1 << 24;
constexpr std::int64_t largest_vocabulary = std::numeric_limits<std::int32_t>::max();

/// What a family means where its config.json says nothing (transformers' defaults).
struct FamilyDefaults {
  std::string_view model_type;
  std::string_view architecture;
  std::int64_t max_positions;
  bool tied;
  std::int64_t head_dim;  // 0: hidden_size / heads
  std::int64_t window;    // of an absent sliding_window; 0: none
};
constexpr std::array<FamilyDefaults, 5> families = {{
    {"llama", "LlamaForCausalLM", 2048, false, 0, 0},
    {"mistral", "MistralForCausalLM", 131072, false, 0, 4096},
    {"qwen2", "Qwen2ForCausalLM", 32768, false, 0, 4096},
    {"qwen3", "Qwen3ForCausalLM", 32768, false, 128, 4096},
    {"gpt2", "GPT2LMHeadModel", 1024, true, 0, 0},
}};

/// Keys that change the mathematics; each is accepted only with the value that means "not used".
struct NeutralKey {
  std::string_view key;
  std::string_view neutral;  // as JSON; null (or absent) is neutral always
};
constexpr std::array<NeutralKey, 39> neutral_keys = {{
    {"add_cross_attention", "false"},
    {"alibi", "false"},
    {"attention_chunk_size", "null"},
    {"attention_multiplier", "null"},
    {"attention_sinks", "false"},
    {"attn_logit_softcapping", "null"},
    {"clip_qkv", "null"},
    {"compression_config", "null"},
    {"dim_model_base", "null"},
    {"embedding_multiplier", "1"},
    {"embedding_scale", "1"},
    {"encoder_hidden_size", "null"},
    {"expert_interval", "null"},
    {"final_logit_softcapping", "null"},
    {"is_encoder_decoder", "false"},
    {"layernorm_type", "null"},
    {"logit_scale", "1"},
    {"logits_scaling", "1"},
    {"n_routed_experts", "0"},
    {"no_rope_layers", "[]"},
    {"num_experts", "0"},
    {"num_local_experts", "0"},
    {"parallel_residual", "false"},
    {"partial_rotary_factor", "1"},
    {"prune_heads", "null"},
    {"pruned_heads", "{}"},
    {"qk_layernorm", "false"},
    {"quantization_config", "null"},
    {"query_pre_attn_scalar", "null"},
    {"residual_multiplier", "1"},
    {"rope_interleaved", "false"},
    {"rotary_pct", "1"},
    {"scale_attn_by_inverse_layer_idx", "false"},
    {"scale_depth", "null"},
    {"scale_emb", "1"},
    {"use_mrope", "false"},
    {"use_parallel_residual", "false"},
    {"use_qk_norm", "false"},
    {"word_embed_proj_dim", "null"},
}};

/// Keys without effect on full fine-tuning in our numbers, known so that they are not reported as unknown.
constexpr std::string_view silent_keys[] = {"_name_or_path",
                                            "architectures",
                                            "auto_map",
                                            "cache_implementation",
                                            "initializer_range",
                                            "is_llama_config",
                                            "model_type",
                                            "n_ctx",
                                            "n_special",
                                            "output_past",
                                            "pad_token_id",
                                            "predict_special_tokens",
                                            "pretraining_tp",
                                            "reorder_and_upcast_attn",
                                            "summary_activation",
                                            "summary_first_dropout",
                                            "summary_proj_to_labels",
                                            "summary_type",
                                            "summary_use_proj",
                                            "task_specific_params",
                                            "transformers_version",
                                            "unk_token_id",
                                            "use_cache"};
constexpr std::string_view dropout_keys[] = {"attention_dropout",
                                             "attn_pdrop",
                                             "embd_pdrop",
                                             "hidden_dropout",
                                             "mlp_dropout",
                                             "resid_pdrop"};

std::string known_families() {
  std::string out;
  for (const FamilyDefaults& family : families) {
    out += (out.empty() ? "" : ", ") + std::string(family.model_type);
  }
  return out;
}

class ConfigReader {
 public:
  ConfigReader(const Json& config, const std::string& file) : keys_(config, file) {}

  Result<ConfigFile> read() {
    PARBUCKLE_TRY(choose_family());
    read_ids();
    if (family_->model_type == "gpt2") {
      read_gpt2();
    } else {
      read_llama();
    }
    check_neutral();
    PARBUCKLE_TRY(keys_.fault());
    write_notes();
    return std::move(out_);
  }

 private:
  Status choose_family() {
    const std::optional<std::string> type = keys_.text("model_type");
    std::string architecture;
    if (const Json* const list = keys_.find("architectures"); list != nullptr) {
      if (!list->is_array() || (!list->empty() && !list->front().is_string())) {
        keys_.refuse("architectures", "a list of names");
      } else if (!list->empty()) {
        architecture = list->front().get<std::string>();
      }
    }
    PARBUCKLE_TRY(keys_.fault());
    if (!type && architecture.empty()) {
      return invalid(keys_.file() +
                     ": neither 'model_type' nor 'architectures' says what model "
                     "this is; known model types are " +
                     known_families());
    }
    const auto* const family =
        std::find_if(families.begin(), families.end(), [&](const FamilyDefaults& candidate) {
          return type ? candidate.model_type == *type : candidate.architecture == architecture;
        });
    if (family == families.end()) {
      return unsupported(
          keys_.file() + ": " +
          (type ? "'model_type' is " + quote(*type) : "'architectures' is " + quote(architecture)) +
          ", which is not implemented; known model types are " + known_families());
    }
    if (!architecture.empty() && architecture != family->architecture) {
      return unsupported(keys_.file() + ": 'architectures' is " + quote(architecture) +
                         "; for model type " + std::string(family->model_type) + " it must be " +
                         std::string(family->architecture));
    }
    family_ = family;
    model().model_type = family->model_type;
    return {};
  }

  ModelConfig& model() { return out_.model; }

  void read_ids() {
    model().vocab_size = keys_.size("vocab_size", largest_vocabulary);
    out_.eos_ids = keys_.token_ids("eos_token_id");
    model().eos_id = out_.eos_ids.empty() ? -1 : out_.eos_ids.front();
    const std::vector<std::int32_t> bos = keys_.token_ids("bos_token_id");
    model().bos_id = bos.empty() ? -1 : bos.front();
    model().tied = keys_.boolean("tie_word_embeddings", family_->tied);
    out_.dtype = keys_.text("torch_dtype").value_or("");
    const std::optional<std::string> newer = keys_.text("dtype");
    if (newer && !out_.dtype.empty() && *newer != out_.dtype) {
      keys_.refuse("dtype", "equal to 'torch_dtype', which is " + quote(out_.dtype));
    }
    out_.dtype = newer.value_or(out_.dtype);
  }

  /// hidden_size / heads, which must be whole.
  std::int64_t divided_head_dim(std::string_view hidden_key, std::string_view heads_key) {
    if (model().hidden_size % model().heads != 0) {
      keys_.refuse(hidden_key,
                   "a multiple of '" + std::string(heads_key) + "' " +
                       std::to_string(model().heads) + " where no 'head_dim' is given");
    }
    return model().hidden_size / model().heads;
  }

  void read_llama() {
    ModelConfig& m = model();
    m.shape = ModelShape::llama;
    m.hidden_size = keys_.size("hidden_size", widest);
    m.intermediate_size = keys_.size("intermediate_size", widest);
    m.layers = keys_.size("num_hidden_layers", most_layers);
    m.heads = keys_.size("num_attention_heads", widest);
    m.kv_heads = keys_.optional_size("num_key_value_heads", widest).value_or(m.heads);
    if (m.heads % m.kv_heads != 0) {
      keys_.refuse("num_key_value_heads",
                   "a divisor of 'num_attention_heads' " + std::to_string(m.heads));
    }
    const std::optional<std::int64_t> stated = keys_.optional_size("head_dim", widest);
    m.head_dim = stated                   ? *stated
                 : family_->head_dim != 0 ? family_->head_dim
                                          : divided_head_dim("hidden_size", "num_attention_heads");
    if (m.head_dim % 2 != 0) {
      keys_.fail(invalid(keys_.file() + ": 'head_dim' is " + std::to_string(m.head_dim) +
                         "; rotary positions need an even one"));
    }
    if (m.heads * m.head_dim > largest_vocabulary) {
      keys_.fail(invalid(keys_.file() + ": 'num_attention_heads' x 'head_dim' is " +
                         std::to_string(m.heads * m.head_dim) + "; it must be below 2^31"));
    }
    m.attention_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(m.head_dim)));
    m.max_positions = keys_.optional_size("max_position_embeddings", largest_vocabulary)
                          .value_or(family_->max_positions);
    m.norm_eps = static_cast<float>(keys_.positive("rms_norm_eps").value_or(1e-6));
    read_activation("hidden_act", "silu");
    read_biases();
    read_windows();
    m.rope = read_rope(keys_);
  }

  void read_biases() {
    ModelConfig& m = model();
    m.qk_norm = m.model_type == "qwen3";
    m.mlp_bias = keys_.boolean("mlp_bias", false);
    if (m.model_type != "llama" && m.mlp_bias) {
      keys_.refuse("mlp_bias", "false for model type " + m.model_type);
    }
    // llama and qwen3 take the key; qwen2 always has biases on q, k and v, mistral never has any.
    const bool stated = keys_.boolean("attention_bias", m.model_type == "qwen2");
    if (m.model_type == "llama" || m.model_type == "qwen3") {
      m.output_bias = stated;
    } else if (stated != (m.model_type == "qwen2")) {
      keys_.refuse("attention_bias",
                   std::string(stated ? "false" : "true") + " for model type " + m.model_type);
    }
    m.qkv_bias = stated;
  }

  void read_activation(std::string_view key, std::string_view otherwise) {
    constexpr std::array<std::pair<std::string_view, Activation>, 7> names = {{
        {"silu", Activation::silu},
        {"swish", Activation::silu},
        {"gelu", Activation::gelu_exact},
        {"gelu_python", Activation::gelu_exact},
        {"gelu_new", Activation::gelu_tanh},
        {"gelu_pytorch_tanh", Activation::gelu_tanh},
        {"relu", Activation::relu},
    }};
    const std::string name = keys_.text(key).value_or(std::string(otherwise));
    const auto* const at = std::find_if(
        names.begin(), names.end(), [&](const auto& entry) { return entry.first == name; });
    if (at == names.end()) {
      return keys_.refuse(key, "one of silu, gelu, gelu_new, gelu_pytorch_tanh, relu");
    }
    model().activation = at->second;
  }

  /// The window that sliding layers have; 0: none. null or a width <= 0 means none; an absent key the family's default.
  std::int64_t window_width(bool absent) {
    const bool switched = family_->model_type == "qwen2" || family_->model_type == "qwen3";
    const bool on = keys_.boolean("use_sliding_window", !switched);
    const std::optional<std::int64_t> stated = keys_.integer("sliding_window");
    if (family_->window == 0) {  // llama has no window, whatever the key says
      if (stated.value_or(0) > 0 && on) {
        keys_.refuse("sliding_window", "null for model type " + model().model_type);
      }
      return 0;
    }
    if (stated.value_or(0) > largest_vocabulary) {
      keys_.refuse("sliding_window", "below 2^31");
    }
    const std::int64_t width = absent ? family_->window : stated.value_or(0);
    return on && width > 0 ? width : 0;
  }

  void read_windows() {
    ModelConfig& m = model();
    const bool mixed = m.model_type == "qwen2" || m.model_type == "qwen3";
    const std::int64_t width = window_width(!keys_.mentions("sliding_window"));
    // Layers from max_window_layers on have the window; below it they see everything.
    const std::int64_t first =
        mixed ? keys_.integer("max_window_layers").value_or(28) : std::int64_t{0};
    m.windows.assign(static_cast<std::size_t>(m.layers), 0);
    for (std::int64_t i = std::max<std::int64_t>(first, 0); i < m.layers; ++i) {
      m.windows[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(width);
    }
    if (keys_.has("layer_types")) {
      read_layer_types(width, mixed);
    }
  }

  void read_layer_types(std::int64_t width, bool may_choose) {
    const Json& list = *keys_.find("layer_types");
    ModelConfig& m = model();
    if (!list.is_array() || list.size() != m.windows.size()) {
      return keys_.refuse("layer_types",
                          "a list of 'num_hidden_layers' " + std::to_string(m.layers) + " names");
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      const bool sliding = list[i] == "sliding_attention";
      const std::int64_t wanted = sliding ? width : 0;
      const bool fits = may_choose ? !sliding || width > 0 : wanted == m.windows[i];
      if ((!sliding && list[i] != "full_attention") || !fits) {
        return keys_.fail(unsupported(
            keys_.file() + ": 'layer_types[" + std::to_string(i) + "]' is " + shown(list[i]) +
            "; with this model type and 'sliding_window' it must be " +
            (may_choose ? (width > 0 ? "full_attention or sliding_attention" : "full_attention")
                        : (m.windows[i] > 0 ? "sliding_attention" : "full_attention"))));
      }
      m.windows[i] = static_cast<std::int32_t>(wanted);
    }
  }

  void read_gpt2() {
    ModelConfig& m = model();
    m.shape = ModelShape::gpt2;
    m.hidden_size = keys_.size("n_embd", widest);
    m.intermediate_size = keys_.optional_size("n_inner", widest).value_or(4 * m.hidden_size);
    m.layers = keys_.size("n_layer", most_layers);
    m.heads = keys_.size("n_head", widest);
    m.kv_heads = m.heads;
    m.head_dim = divided_head_dim("n_embd", "n_head");
    m.max_positions =
        keys_.optional_size("n_positions", widest)
            .value_or(keys_.optional_size("n_ctx", widest).value_or(family_->max_positions));
    m.norm_eps = static_cast<float>(keys_.positive("layer_norm_epsilon").value_or(1e-5));
    read_activation("activation_function", "gelu_new");
    const bool scaled = keys_.boolean("scale_attn_weights", true);
    m.attention_scale =
        scaled ? static_cast<float>(1 / std::sqrt(static_cast<double>(m.head_dim))) : 1.0F;
    m.qkv_bias = m.output_bias = m.mlp_bias = true;
    m.windows.assign(static_cast<std::size_t>(m.layers), 0);
  }

  void check_neutral() {
    for (const NeutralKey& entry : neutral_keys) {
      const Json* const value = keys_.find(entry.key);
      if (value == nullptr || *value == Json::parse(entry.neutral)) {
        continue;
      }
      std::string what = shown(*value);
      if (value->is_object() && value->contains("quant_method")) {
        what = "quant_method " + shown((*value)["quant_method"]) + " (" + what + ")";
      }
      keys_.fail(unsupported(keys_.file() + ": '" + std::string(entry.key) + "' is " + what +
                             ", which changes the mathematics and is not implemented; allowed is " +
                             std::string(entry.neutral)));
    }
  }

  void write_notes() {
    for (const std::string_view key : dropout_keys) {
      if (const std::optional<double> rate = keys_.number(key); rate.value_or(0) > 0) {
        out_.notes.push_back("'" + std::string(key) + "' is ignored: dropout is not applied");
      }
    }
    for (const std::string_view key : silent_keys) {
      keys_.know(key);
    }
    const std::vector<std::string> unknown = keys_.unknown();
    if (!unknown.empty()) {
      out_.notes.push_back("unknown keys are ignored: " + first_few(unknown, 8));
    }
  }

  ConfigKeys keys_;
  const FamilyDefaults* family_ = nullptr;
  ConfigFile out_;
};

}  // namespace

Result<ConfigFile> parse_config(std::string_view text, const std::string& name) {
  PARBUCKLE_ASSIGN(const Json config, parse_json_object(text, name));
  return ConfigReader(config, name).read();
}

Result<ConfigFile> read_config_file(const std::string& path) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  const std::string name = folder ? (std::filesystem::path(path) / "config.json").string() : path;
  PARBUCKLE_ASSIGN(const InputFile file, InputFile::open(name));
  PARBUCKLE_ASSIGN(const std::string text, file.read_text(longest_config));
  return parse_config(text, name);
}

Result<ModelConfig> read_config(const std::string& path) {
  PARBUCKLE_ASSIGN(ConfigFile file, read_config_file(path));
  return std::move(file.model);
}

Result<GenerationConfig> parse_generation_config(std::string_view text, const std::string& name) {
  PARBUCKLE_ASSIGN(const Json config, parse_json_object(text, name));
  ConfigKeys keys(config, name);
  GenerationConfig out;
  const auto single = [&keys](std::string_view key) -> std::optional<std::int32_t> {
    const std::vector<std::int32_t> ids = keys.token_ids(key);
    return ids.empty() ? std::nullopt : std::optional(ids.front());
  };
  out.bos_id = single("bos_token_id");
  out.pad_id = single("pad_token_id");
  out.eos_ids = keys.token_ids("eos_token_id");
  if (keys.has("do_sample")) {
    out.do_sample = keys.boolean("do_sample", false);
  }
  out.temperature = keys.number("temperature");
  out.top_p = keys.number("top_p");
  out.top_k = keys.integer("top_k");
  PARBUCKLE_TRY(keys.fault());
  return out;
}

}  // namespace parbuckle
