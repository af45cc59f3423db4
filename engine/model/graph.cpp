#include "engine/model/graph.h"

#include "engine/model/gpt2.h"
#include "engine/model/llama.h"

namespace parbuckle {

Graph model_graph(const ModelConfig& config) {
  switch (config.shape) {
    case ModelShape::llama:
      return llama_graph(config);
    case ModelShape::gpt2:
      return gpt2_graph(config);
  }
  return {};
}

}  // namespace parbuckle
