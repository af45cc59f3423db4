#include "offload/plan/order.h"

#include <gtest/gtest.h>

#include "tests/offload/plan/draft.h"
#include "tests/support/workload_generator.h"

namespace parbuckle {
namespace {

// One line per task: kind initial, unit, micro-batch. "F1.0" is the forward of unit 1 for micro-batch 0.
std::string text(const std::vector<ChainTask>& chain) {
  std::string line;
  for (const ChainTask& task : chain) {
    const auto number = [](std::int32_t n) { return n < 0 ? std::string() : std::to_string(n); };
    switch (task.kind) {
      case TaskKind::begin:
        line += "begin";
        break;
      case TaskKind::turn:
        line += "turn";
        break;
      case TaskKind::finish:
        line += "finish";
        break;
      case TaskKind::update:
        line += "U" + number(task.unit.value);
        break;
      case TaskKind::forward:
        line += "F" + number(task.unit.value) + "." + number(task.micro_batch);
        break;
      case TaskKind::gradient_begin:
        line += "Z" + number(task.unit.value);
        break;
      case TaskKind::backward:
        line += "B" + number(task.unit.value) + "." + number(task.micro_batch);
        break;
      case TaskKind::gradient_end:
        line += "N" + number(task.unit.value);
        break;
    }
    line += " ";
  }
  return line;
}

// Units 0: embedding with one part, 1: attention, 2: mlp, 3: head (no forward; norm and table part); 2 micro-batches.
Workload tiny(bool tied) {
  TransformerSizes sizes;
  sizes.layers = 1;
  sizes.tied = tied;
  sizes.clipping = false;
  return make_workload(sizes);
}

std::string order(const Workload& workload, Window window, std::int32_t group) {
  Choice choice = streamed(workload, window);
  choice.group = group;
  return text(expand(workload, choice));
}

TEST(Order, LayerMajorAfter) {
  EXPECT_EQ(order(tiny(false), Window::after, 2),
            "F0.0 F0.1 F1.0 F1.1 F2.0 F2.1 "
            "Z3 Z3 B3.0 B3.1 N3 N3 Z2 B2.0 B2.1 N2 Z1 B1.0 B1.1 N1 Z0 B0.0 B0.1 N0 finish "
            "U0 U1 U2 U3 U3 ");
}

TEST(Order, MicroBatchMajorAfter) {
  EXPECT_EQ(order(tiny(false), Window::after, 1),
            "F0.0 F1.0 F2.0 Z3 Z3 B3.0 Z2 B2.0 Z1 B1.0 Z0 B0.0 "
            "F0.1 F1.1 F2.1 B3.1 N3 N3 B2.1 N2 B1.1 N1 B0.1 N0 finish U0 U1 U2 U3 U3 ");
}

TEST(Order, LazyUpdatesStandBeforeTheFirstUseOfTheirWeight) {
  // The head has no forward: its updates stand before their gradients start anew.
  EXPECT_EQ(order(tiny(false), Window::lazy, 2),
            "U0 F0.0 F0.1 U1 F1.0 F1.1 U2 F2.0 F2.1 "
            "U3 Z3 U3 Z3 B3.0 B3.1 N3 N3 Z2 B2.0 B2.1 N2 Z1 B1.0 B1.1 N1 Z0 B0.0 B0.1 N0 finish ");
}

TEST(Order, FusedUpdatesFollowTheGradientExceptOfEmbeddingTables) {
  EXPECT_EQ(order(tiny(false), Window::fused, 2),
            "U0 F0.0 F0.1 F1.0 F1.1 F2.0 F2.1 turn "
            "Z3 Z3 B3.0 B3.1 N3 N3 U3 U3 Z2 B2.0 B2.1 N2 U2 Z1 B1.0 B1.1 N1 U1 Z0 B0.0 B0.1 N0 ");
}

TEST(Order, FusedTiedTableWaitsForTheEmbedding) {
  // Its gradient is complete after unit 0, whose backward does not read it; the head, unit 3, updates only its norm.
  EXPECT_EQ(order(tiny(true), Window::fused, 1),
            "U0 F0.0 F1.0 F2.0 Z3 Z3 B3.0 Z2 B2.0 Z1 B1.0 Z0 B0.0 "
            "F0.1 F1.1 F2.1 turn B3.1 N3 N3 N3 U3 B2.1 N2 U2 B1.1 N1 U1 B0.1 N0 ");
}

TEST(Order, LazyTablePartsAreUpdatedOneByOne) {
  TransformerSizes sizes;
  sizes.layers = 1;
  sizes.vocabulary = 256;
  sizes.width = 64;
  sizes.block_elements = 8192;  // two parts
  const Workload workload = make_workload(sizes);
  EXPECT_EQ(order(workload, Window::lazy, 2).substr(0, 32), "U0 F0.0 F0.1 U0 F0.0 F0.1 U1 U1 ");
}

TransformerSizes staged() {
  TransformerSizes sizes;
  sizes.layers = 1;
  sizes.vocabulary = 256;
  sizes.block_elements = 8192;  // two parts
  sizes.clipping = false;
  sizes.staged_head = true;
  return sizes;
}

std::string head_of(const std::string& order) {
  const std::size_t begin = order.find("F3");
  return order.substr(begin, order.find("Z2") - begin);
}

TEST(Order, PartsOfTheHeadBeginAndEndTheirGradientsOneByOne) {
  // Tied: each part's norm and its touched rows. The head's norm has its gradient from the last part.
  EXPECT_EQ(head_of(order(make_workload(staged()), Window::after, 2)),
            "F3.0 F3.1 F3.0 F3.1 Z3 B3.0 B3.1 N3 N3 Z3 Z3 B3.0 B3.1 N3 N3 N3 ");
}

TEST(Order, FusedUpdatesFollowThePartThatTheyChange) {
  TransformerSizes sizes = staged();
  sizes.tied = false;
  EXPECT_EQ(head_of(order(make_workload(sizes), Window::fused, 2)),
            "F3.0 F3.1 F3.0 F3.1 turn Z3 B3.0 B3.1 N3 U3 Z3 Z3 B3.0 B3.1 N3 N3 U3 U3 ");
}

TEST(Order, OtherPhasesHaveNoBackward) {
  TransformerSizes sizes;
  sizes.layers = 1;
  sizes.phase = Phase::eval;
  EXPECT_EQ(order(make_workload(sizes), Window::after, 2),
            "F0.0 F0.1 F1.0 F1.1 F2.0 F2.1 F3.0 F3.1 ");
}

}  // namespace
}  // namespace parbuckle
