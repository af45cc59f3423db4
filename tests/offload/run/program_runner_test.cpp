#include "offload/run/program_runner.h"

#include <array>
#include <thread>

#include <gtest/gtest.h>

#include "kernels/runtime/cpu/cpu_device.h"

namespace parbuckle {
namespace {

/// Writes down what it was asked.
struct Recorder {
  std::vector<OpShape> prepared;
  std::thread::id thread;
  std::int64_t workspace_bytes = 0;
  Status prepare_status;
  Status run_status;
  struct Run {
    OpShape shape;
    std::vector<void*> data;
    void* workspace = nullptr;
  };
  std::vector<Run> runs;

  OpTable table() {
    return {.state = this,
            .prepare = [](void* state, const OpShape& op) -> Result<std::int64_t> {
              auto* const self = static_cast<Recorder*>(state);
              self->prepared.push_back(op);
              self->thread = std::this_thread::get_id();
              PARBUCKLE_TRY(self->prepare_status);
              return self->workspace_bytes;
            },
            .run = [](void* state, const OpShape& op, const OpArgs& args) -> Status {
              auto* const self = static_cast<Recorder*>(state);
              Run run{op, {}, args.workspace};
              for (const OperandView& operand : args.operands) {
                run.data.push_back(operand.data);
              }
              self->runs.push_back(std::move(run));
              return self->run_status;
            }};
  }
};

OperandRef floats(std::int32_t region, std::int64_t offset, std::int64_t count) {
  return {region, offset, DType::f32, {count, 1, 1}};
}

class Runner : public testing::Test {
 protected:
  void SetUp() override {
    Program copies{.name = "copies", .key = {64, 0}, .region_bytes = {64, 128}};
    copies.scratch_bytes = 256;
    copies.ops = {{.kind = OpKind::copy, .operands = {floats(0, 0, 16), floats(2, 64, 16)}},
                  {.kind = OpKind::add,
                   .operands = {floats(2, 64, 16), floats(0, 0, 16), floats(1, 64, 16)},
                   .workspace_offset = 128}};
    Program unused{.name = "unused", .region_bytes = {}};
    unused.ops = {{.kind = OpKind::copy, .operands = {floats(5, 0, 1)}}};
    programs = {copies, unused};
  }
  Result<ProgramRunner> create() {
    return ProgramRunner::create(programs, {true, false}, recorder.table(), *stream);
  }

  Recorder recorder;
  std::vector<Program> programs;
  std::unique_ptr<Device> device = CpuDevice::create().value();
  std::unique_ptr<Stream> stream = device->create_stream().value();
};

TEST_F(Runner, PreparesEveryOpOfTheUsedProgramsOnTheStream) {
  const Result<ProgramRunner> runner = create();
  ASSERT_TRUE(runner.ok()) << runner.status().message();
  ASSERT_EQ(recorder.prepared.size(), 2U);
  EXPECT_EQ(recorder.prepared[1].kind, OpKind::add);
  EXPECT_EQ(recorder.prepared[1].operands.size(), 3U);
  EXPECT_NE(recorder.thread, std::this_thread::get_id());
}

TEST_F(Runner, BindsRegionsScratchAndWorkspace) {
  Result<ProgramRunner> runner = create();
  ASSERT_TRUE(runner.ok());
  std::array<std::byte, 64> first{};
  std::array<std::byte, 128> second{};
  std::array<std::byte, 256> scratch{};
  const std::array<std::byte*, 2> regions{first.data(), second.data()};
  ASSERT_TRUE(runner->run(ProgramId(0L), regions, scratch.data()).ok());
  ASSERT_EQ(recorder.runs.size(), 2U);
  EXPECT_EQ(recorder.runs[0].data, (std::vector<void*>{first.data(), scratch.data() + 64}));
  EXPECT_EQ(recorder.runs[1].data,
            (std::vector<void*>{scratch.data() + 64, first.data(), second.data() + 64}));
  EXPECT_EQ(recorder.runs[1].workspace, scratch.data() + 128);
  EXPECT_EQ(recorder.runs[1].shape, recorder.prepared[1]);
}

TEST_F(Runner, StopsAtTheFirstOpThatFails) {
  Result<ProgramRunner> runner = create();
  ASSERT_TRUE(runner.ok());
  recorder.run_status = internal_error("no");
  const std::array<std::byte*, 2> regions{};
  EXPECT_EQ(runner->run(ProgramId(0L), regions, nullptr).message(), "no");
  EXPECT_EQ(recorder.runs.size(), 1U);
}

TEST_F(Runner, RefusesOperandsAndWorkspacesOutsideTheirRegions) {
  programs[0].ops[0].operands[0] = floats(0, 4, 16);
  EXPECT_EQ(
      create().status().message(),
      "program 'copies' at 64 rows, op copy: an operand ends at byte 68 of region 0, which has 64");
  programs[0].ops[0].operands[0] = floats(3, 0, 1);
  EXPECT_NE(create().status().message().find("region 3 does not exist"), std::string::npos);
  SetUp();
  recorder.workspace_bytes = 200;
  EXPECT_NE(create().status().message().find(
                "op add: its workspace of 200 bytes at 128 is outside the scratch of 256 bytes"),
            std::string::npos);
  recorder.prepare_status = unsupported("this op is not implemented");
  EXPECT_EQ(create().status().message(), "this op is not implemented");
}

}  // namespace
}  // namespace parbuckle
