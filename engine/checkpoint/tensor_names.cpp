#include "engine/checkpoint/tensor_names.h"

#include <algorithm>
#include <array>
#include <utility>

namespace parbuckle {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;
constexpr std::array<Pair, 3> outer_names = {{
    {"model.embed_tokens.", "token_embd."},
    {"model.norm.", "output_norm."},
    {"lm_head.", "output."},
}};
constexpr std::array<Pair, 9> layer_names = {{
    {"self_attn.q_proj.", "attn_q."},
    {"self_attn.k_proj.", "attn_k."},
    {"self_attn.v_proj.", "attn_v."},
    {"self_attn.o_proj.", "attn_output."},
    {"mlp.gate_proj.", "ffn_gate."},
    {"mlp.up_proj.", "ffn_up."},
    {"mlp.down_proj.", "ffn_down."},
    {"input_layernorm.", "attn_norm."},
    {"post_attention_layernorm.", "ffn_norm."},
}};
constexpr std::string_view layer_prefix = "model.layers.";
constexpr std::string_view gpt2_prefix = "transformer.";

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// "stem" + rest, where one of the pairs begins with what `name` begins with.
template <std::size_t count>
std::string replaced(std::string_view name, const std::array<Pair, count>& pairs) {
  for (const auto& [ours, theirs] : pairs) {
    if (name.starts_with(ours)) {
      return std::string(theirs) + std::string(name.substr(ours.size()));
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> folder_names(const std::string& parameter) {
  if (parameter.starts_with(gpt2_prefix)) {
    return {parameter, parameter.substr(gpt2_prefix.size())};
  }
  return {parameter};
}

std::string gguf_name(std::string_view parameter) {
  if (!parameter.starts_with(layer_prefix)) {
    return replaced(parameter, outer_names);
  }
  const std::string_view rest = parameter.substr(layer_prefix.size());
  const std::size_t dot = rest.find('.');
  const std::string inner = replaced(rest.substr(dot + 1), layer_names);
  return inner.empty() ? "" : "blk." + std::string(rest.substr(0, dot)) + "." + inner;
}

bool is_ignored_buffer(std::string_view tensor) {
  if (tensor.ends_with("rotary_emb.inv_freq")) {
    return true;
  }
  if (tensor.starts_with(gpt2_prefix)) {
    tensor.remove_prefix(gpt2_prefix.size());
  }
  if (!tensor.starts_with("h.")) {
    return false;
  }
  const std::string_view rest = tensor.substr(2);
  const std::string_view inner = rest.substr(std::min(rest.find('.'), rest.size()));
  return inner == ".attn.bias" || inner == ".attn.masked_bias";
}

bool names_quantised_weights(std::string_view tensor) {
  constexpr std::array<std::string_view, 8> marks = {
      "scale", "qweight", "qzeros", "g_idx", "absmax", "quant_map", "quant_state", "packed"};
  return std::any_of(
      marks.begin(), marks.end(), [&](std::string_view mark) { return holds(tensor, mark); });
}

}  // namespace parbuckle
