// The tokenizer that belongs to a model: tokenizer.json of its folder, or the vocabulary of its GGUF file.
#pragma once

#include "parbuckle/status.h"

#include "engine/checkpoint/model_folder.h"
#include "engine/data/tokenizer.h"

namespace parbuckle {

/// Fails where there is none, and where it has ids beyond the model's embedding (both numbers are named).
Result<Tokenizer> model_tokenizer(const ModelFolder& model);

}  // namespace parbuckle
