// What the reference data holds for the models is what the parity tests compare: a folder, tensor or figure that none of them
// knows fails here instead of being passed over.
#include <filesystem>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/fixture_model.h"
#include "tests/support/shared_path.h"

namespace parbuckle {
namespace {

using Names = std::set<std::string>;

TEST(ParityFixtures, EveryModelOfTheFamiliesIsListed) {
  PARBUCKLE_NEEDS_SHARED("fixtures/models");
  Names found;
  for (const auto& entry : std::filesystem::directory_iterator(shared_file("fixtures/models"))) {
    const std::string name = entry.path().filename();
    for (const std::string family : {"gpt2_", "llama_", "mistral_", "qwen2", "qwen3"}) {
      if (name.starts_with(family)) {
        found.insert(name);
      }
    }
  }
  EXPECT_EQ(found.erase("llama_rope_yarn"), 1U);  // refused by name: no yarn
  EXPECT_EQ(found, Names(parity_models().begin(), parity_models().end()));
}

template <class Map>
Names keys(const Map& map) {
  Names out;
  for (const auto& [name, value] : map) {
    out.insert(name);
  }
  return out;
}

TEST(ParityFixtures, EveryTensorAndFigureIsCompared) {
  for (const std::string& name : parity_models()) {
    PARBUCKLE_NEEDS_SHARED("fixtures/models/" + name);
    const FixtureModel model = fixture_model(name);
    Names tensors = {"logits"};
    std::size_t elements = 0;
    Names packed = {"logits", "input_ids", "labels", "position_ids", "document_ids"};
    for (const auto& [parameter, values] : model.weights) {
      packed.insert("grad." + parameter);
      elements += values.size();
      for (const std::string kind :
           {"grad.", "adamw.weight.", "adamw.exp_avg.", "adamw.exp_avg_sq.", "clipped.weight."}) {
        tensors.insert(kind + parameter);
        ASSERT_EQ(model.expected.at(kind + parameter).size(), values.size()) << name << parameter;
      }
    }
    EXPECT_EQ(elements, model.numbers["parameters"].get<std::size_t>()) << name;
    EXPECT_EQ(keys(model.expected), tensors) << name;
    EXPECT_EQ(keys(model.packed), packed) << name;
    EXPECT_EQ(keys(model.batch), (Names{"input_ids", "labels"})) << name;
    EXPECT_EQ(keys(model.numbers.items()),
              (Names{"parameters",
                     "loss",
                     "loss_sums",
                     "targets",
                     "grad_norm",
                     "greedy",
                     "adamw",
                     "adamw_final_loss",
                     "clipped",
                     "clipped_final_loss"}))
        << name;
    EXPECT_EQ(keys(model.packed_numbers.items()),
              (Names{"lengths", "targets", "loss_sums", "loss", "grad_norm"}))
        << name;
    EXPECT_EQ(model.numbers["adamw"].size(), 5U) << name;
    EXPECT_EQ(model.numbers["clipped"].size(), 5U) << name;
    EXPECT_EQ(model.numbers["greedy"].size(), 2U) << name;
  }
}

}  // namespace
}  // namespace parbuckle
