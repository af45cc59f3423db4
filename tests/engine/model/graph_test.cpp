#include "engine/model/graph.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "engine/model/parameters.h"
#include "tests/support/fixture_model.h"

namespace parbuckle {
namespace {

TEST(ModelGraph, UsesEveryParameterOfEveryModelOnceButTiedTables) {
  for (const char* const name :
       {"llama_gqa_untied", "gpt2_tied", "qwen3", "llama_bias", "mistral_window"}) {
    const ModelConfig config = fixture_config(name);
    const Graph graph = model_graph(config);
    std::map<ValueId, int> uses;
    for (const GraphUnit& unit : graph.units) {
      EXPECT_TRUE(std::is_sorted(unit.parameters.begin(), unit.parameters.end())) << unit.name;
      for (const ValueId id : unit.parameters) {
        ++uses[id];
      }
    }
    const std::vector<Parameter> all = parameters(config);
    EXPECT_EQ(uses.size(), all.size()) << name;
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(graph.values[i].name, all[i].name);
      EXPECT_EQ(uses[ValueId(i)], config.tied && i == 0 ? 2 : 1) << all[i].name;
    }
  }
}

TEST(ModelGraph, HalvesAreUnitsBetweenEmbeddingAndHead) {
  const Graph graph = model_graph(fixture_config("gpt2_tied"));
  std::vector<std::string> names;
  for (const GraphUnit& unit : graph.units) {
    names.push_back(unit.name);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"embedding",
                                      "layer0.attention",
                                      "layer0.mlp",
                                      "layer1.attention",
                                      "layer1.mlp",
                                      "head"}));
  for (std::size_t u = 1; u < graph.units.size(); ++u) {
    EXPECT_EQ(graph.units[u].input, graph.units[u - 1].output);
  }
}

TEST(ModelGraph, WindowsAreThoseOfTheirLayers) {
  ModelConfig config = fixture_config("mistral_window");
  config.windows = {0, 5, 7};
  std::vector<std::int32_t> found;
  for (const GraphUnit& unit : model_graph(config).units) {
    for (const GraphOp& op : unit.forward) {
      if (op.kind == OpKind::attention_forward) {
        found.push_back(op.attributes.window);
      }
    }
  }
  EXPECT_EQ(found, config.windows);
}

}  // namespace
}  // namespace parbuckle
