// The parts of a tokenizer.json that are lists of typed steps.
#pragma once

#include "parbuckle/status.h"

#include "engine/data/json_part.h"
#include "engine/data/tokenizer_parts.h"

namespace parbuckle {

Status read_normalizer(const JsonPart& top, Tokenizer::Parts& parts);
Status read_pre_tokenizer(const JsonPart& top, Tokenizer::Parts& parts);
Status read_decoder(const JsonPart& top, Tokenizer::Parts& parts);
/// REQUIRES: vocabulary and added tokens are there; the template's ids are checked against them.
Status read_post_processor(const JsonPart& top, Tokenizer::Parts& parts);

}  // namespace parbuckle
