// How one parameter is called in the files of different programs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace parbuckle {

/// Names that a Hugging Face folder may use for a parameter of ours; the first that is there counts. Older gpt2 folders
/// leave out the prefix "transformer.".
std::vector<std::string> folder_names(const std::string& parameter);

/// "model.layers.0.self_attn.q_proj.weight" -> "blk.0.attn_q.weight"; empty where GGUF has no such tensor.
std::string gguf_name(std::string_view parameter);

/// Buffers that older programs saved and that hold no parameter: causal masks of gpt2, rotary frequencies.
bool is_ignored_buffer(std::string_view tensor);

/// Names that only quantised checkpoints have: scales, packed weights, zero points.
bool names_quantised_weights(std::string_view tensor);

}  // namespace parbuckle
