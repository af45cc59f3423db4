#include "engine/graph/lower.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "parbuckle/units.h"

#include "engine/base/json.h"
#include "engine/graph/autodiff.h"
#include "engine/graph/program_writer.h"
#include "engine/graph/recompute.h"
#include "engine/model/graph.h"
#include "engine/model/parameters.h"
#include "tests/support/fixture_model.h"
#include "tests/support/reference_table.h"

namespace parbuckle {
namespace {

Lowered smollm2() {
  const LowerOptions options = {
      .micro_batches = 4, .shapes = {{64, 0}, {256, 0}}, .clipping = true};
  auto result = lower(smollm2_135m_config(), options, reference_table());
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *std::move(result) : Lowered{};
}

std::int64_t bytes_of(const Workload& w, Role role) {
  return std::accumulate(
      w.blocks.begin(), w.blocks.end(), std::int64_t{0}, [role](std::int64_t sum, const Block& b) {
        return sum + (b.role == role && !b.per_micro_batch ? b.bytes : 0);
      });
}

const Unit& unit_named(const Workload& w, const std::string& name) {
  return *std::find_if(
      w.units.begin(), w.units.end(), [&name](const Unit& u) { return u.name == name; });
}

TEST(Lower, PlacesEveryElementOfSmolLM2Once) {
  const Lowered l = smollm2();
  const std::vector<Parameter> all = parameters(smollm2_135m_config());
  ASSERT_EQ(l.parameters.size(), all.size());
  std::int64_t total = 0;
  std::set<std::pair<std::int32_t, std::int64_t>> taken;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(l.parameters[i].name, all[i].name);
    std::int64_t next = 0;
    for (const ParameterPiece& piece : l.parameters[i].pieces) {
      EXPECT_EQ(piece.first, next);
      next += piece.count;
      EXPECT_TRUE(taken.emplace(piece.weight.value, piece.offset).second);
      const Block& block = l.workload.blocks[piece.weight.index()];
      EXPECT_LE(piece.offset + piece.count * 4, block.bytes);
      EXPECT_EQ(l.workload.blocks[piece.moment1.index()].bytes, block.bytes);
      EXPECT_EQ(l.workload.blocks[piece.moment2.index()].bytes, block.bytes);
      EXPECT_EQ(l.workload.blocks[piece.gradient.index()].bytes, block.bytes);
    }
    EXPECT_EQ(next, all[i].elements()) << all[i].name;
    total += next;
  }
  EXPECT_EQ(total, 134515008);
}

TEST(Lower, BytesOfSmolLM2AreItsParametersAndAFewPages) {
  const Workload& w = smollm2().workload;
  constexpr std::int64_t bytes = 134515008LL * 4;
  for (const Role role : {Role::weight, Role::moment1, Role::moment2, Role::gradient}) {
    EXPECT_GE(bytes_of(w, role), bytes);
    EXPECT_LE(bytes_of(w, role), bytes + 70 * page_bytes);
  }
  // 4 x 256 tokens touch at most 1024 rows; the head's rows for them wait beside the embedding's.
  EXPECT_EQ(bytes_of(w, Role::sparse_gradient), 2 * round_up(1024 * 576 * 4, page_bytes));
}

TEST(Lower, BlocksArePagesOfAtMostFourMiElements) {
  const Workload& w = smollm2().workload;
  for (const Span& span : w.spans) {
    std::int64_t at = 0;
    for (const BlockId id : span.blocks) {
      const Block& block = w.blocks[id.index()];
      EXPECT_EQ(block.span_offset, at);
      at += block_bytes(block, w.shapes.back());
      if (!block.per_micro_batch) {
        EXPECT_EQ(block.bytes % page_bytes, 0) << block.name;
        EXPECT_LE(block.bytes, 16 * mib) << block.name;
      }
    }
    EXPECT_EQ(at, span.bytes) << span.name;
  }
}

TEST(Lower, TablesAreCutIntoEqualPartsByShapeAlone) {
  const StepBindings& bindings = smollm2().bindings;
  // 49152 x 576 elements are 6.75 blocks: seven parts, rows rounded up to 16.
  const std::vector<std::int64_t> expected = {0, 7024, 14048, 21072, 28096, 35120, 42144, 49152};
  EXPECT_EQ(bindings.logit_rows_begin, expected);
}

TEST(Lower, LayersOfOneStructureShareTheirPrograms) {
  const Lowered l = smollm2();
  const auto same = [](const TaskTemplate& a, const TaskTemplate& b) {
    return a.family == b.family;
  };
  const Unit& first = unit_named(l.workload, "layer0.mlp");
  const Unit& last = unit_named(l.workload, "layer29.mlp");
  for (std::size_t a = 0; a < 2; ++a) {
    EXPECT_TRUE(same(first.alternatives[a].forward[0], last.alternatives[a].forward[0]));
    EXPECT_TRUE(same(first.alternatives[a].backward[0], last.alternatives[a].backward[0]));
  }
  EXPECT_TRUE(same(first.gradient_end[0], last.gradient_end[0]));
  std::set<std::string> names;
  for (const Program& program : l.programs) {
    names.insert(program.name + "/" + std::to_string(program.key.rows));
  }
  EXPECT_EQ(names.size(), l.programs.size());
  EXPECT_LT(l.workload.families.size(), 60U);
}

TEST(Lower, KeepsOnlyWhatCannotBeHadCheaply) {
  Graph graph = model_graph(smollm2_135m_config());
  ASSERT_TRUE(append_backward(graph).ok());
  const auto names = [&graph](const GraphUnit& unit) {
    std::vector<std::string> out;
    for (const ValueId id : saved_values(unit)) {
      const std::string& name = graph.values[id.index()].name;
      out.push_back(name.substr(name.find('.', name.find('.') + 1) + 1));
    }
    return out;
  };
  EXPECT_EQ(names(graph.units[1]),
            (std::vector<std::string>{
                "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "attended", "lse"}));
  EXPECT_EQ(names(graph.units[2]), (std::vector<std::string>{"mlp.gate_proj", "mlp.up_proj"}));
}

TEST(Lower, CountsTheFlopsOfATrainStep) {
  const Lowered l = smollm2();
  double flops = 0;
  for (const Unit& unit : l.workload.units) {
    for (const auto* tasks : {&unit.alternatives[0].forward, &unit.alternatives[0].backward}) {
      for (const TaskTemplate& task : *tasks) {
        flops += l.workload.families[task.family.index()].flops.back();
      }
    }
  }
  // 3 x 2 x rows x matrix elements (head included), and attention: 2 products forwards, 5 backwards.
  const double matrices = 30 * (576.0 * (576 + 2 * 192 + 576) + 3 * 576.0 * 1536) + 49152.0 * 576;
  const double attention = 7 * 2.0 * 576 * (256 * 257 / 2) * 30;
  EXPECT_DOUBLE_EQ(flops, 6 * 256 * matrices + attention);
}

TEST(Lower, RefusesShapesThatMakeNoWorkload) {
  const auto refused = [](const LowerOptions& options) {
    return lower(smollm2_135m_config(), options, reference_table()).status().code() ==
           Code::invalid_argument;
  };
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({.shapes = {{100, 0}}}));
  EXPECT_TRUE(refused({.shapes = {{256, 0}, {64, 0}}}));
  EXPECT_TRUE(refused({.micro_batches = 0, .shapes = {{64, 0}}}));
  EXPECT_TRUE(refused({.phase = Phase::prefill, .shapes = {{64, 0}}}));
  EXPECT_TRUE(refused({.phase = Phase::decode, .micro_batches = 2, .shapes = {{1, 64}}}));
}

TEST(Lower, WorkloadAndGraphSurviveJson) {
  const Lowered l = smollm2();
  const auto graph = graph_from_json(to_json(l.graph));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(*graph, l.graph);
  const auto workload = workload_from_json(to_json(l.workload));
  ASSERT_TRUE(workload.ok()) << workload.status().message();
  EXPECT_EQ(*workload, l.workload);
}

TEST(Lower, TheSameRequestGivesTheSameWorkload) {
  const Lowered a = smollm2();
  const Lowered b = smollm2();
  EXPECT_EQ(a.workload, b.workload);
  EXPECT_EQ(a.programs, b.programs);
}

TEST(Autodiff, RefusesASumWhoseOperandsAreUsedAgain) {
  Graph graph = model_graph(smollm2_135m_config());
  GraphUnit& unit = graph.units[1];
  unit.forward.push_back(unit.forward.back());  // x + branch twice: the branch has two consumers
  EXPECT_EQ(append_backward(graph).code(), Code::internal);
}

TEST(PlaceLifetimes, BuffersThatNeverMeetShareTheirPlace) {
  std::vector<Lifetime> buffers = {{.bytes = 100, .first = 0, .last = 1},
                                   {.bytes = 200, .first = 2, .last = 3},
                                   {.bytes = 50, .first = 1, .last = 2}};
  EXPECT_EQ(place_lifetimes(buffers), 256 + 64);
  EXPECT_EQ(buffers[0].offset, 0);
  EXPECT_EQ(buffers[1].offset, 0);
  EXPECT_EQ(buffers[2].offset, 256);
}

}  // namespace
}  // namespace parbuckle
