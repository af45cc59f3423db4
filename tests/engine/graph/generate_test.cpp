// Prefill and decode with a key/value cache against the reference logits and greedy continuations.
#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "tests/engine/graph/fixture_run.h"
#include "tests/support/fixture_model.h"
#include "tests/support/shared_path.h"
#include "tests/support/table_under_test.h"

namespace parbuckle {
namespace {

constexpr std::int64_t cache_rows = 64;

class Generate : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    PARBUCKLE_NEEDS_SHARED("fixtures/models/" + GetParam());
    model_ = fixture_model(GetParam());
  }

  Lowered lowered(Phase phase, std::int64_t rows, std::int64_t logit_rows) const {
    const LowerOptions options = {.phase = phase,
                                  .shapes = {{rows, cache_rows}},
                                  .block_elements = 1024,
                                  .logit_rows = logit_rows};
    return lowered_for_test(model_.config, options);
  }

  /// One pass over `ids`, the first of them at `position`; logits of its last rows.
  void pass(const Lowered& l,
            ResidentRun& run,
            const std::vector<std::int32_t>& ids,
            std::int32_t position,
            std::int64_t logit_rows) const {
    const std::int64_t rows = l.workload.shapes.back().rows;
    std::byte* const batch = run.span(l.bindings.batch);
    std::fill(batch, batch + l.workload.spans[l.bindings.batch.index()].bytes, std::byte{0xFF});
    const auto column = [&](BatchColumn which) {
      return reinterpret_cast<std::int32_t*>(batch + batch_column_offset(which, rows));
    };
    for (std::size_t i = 0; i < ids.size(); ++i) {
      column(BatchColumn::tokens)[i] = ids[i];
      column(BatchColumn::positions)[i] = position + static_cast<std::int32_t>(i);
    }
    for (std::int64_t s = 0; s < logit_rows; ++s) {
      run.as<std::int32_t>(l.bindings.selected)[s] =
          static_cast<std::int32_t>(std::ssize(ids) - logit_rows + s);
    }
    if (l.bindings.inverse_frequencies.valid()) {
      const std::vector<float> f = inverse_frequencies(model_.config);
      std::copy(f.begin(), f.end(), run.as<float>(l.bindings.inverse_frequencies));
    }
    const Status status = run.forward_pass();
    ASSERT_TRUE(status.ok()) << status.message();
  }

  float logit(const Lowered& l,
              ResidentRun& run,
              std::int64_t logit_rows,
              std::int64_t row,
              std::int64_t id) const {
    float value = 0;
    std::memcpy(&value,
                run.span(l.bindings.logits) + logit_offset(l.bindings, logit_rows, row, id),
                sizeof(value));
    return value;
  }

  std::int32_t best(const Lowered& l, ResidentRun& run) const {
    std::int32_t top = 0;
    for (std::int32_t id = 1; id < model_.config.vocab_size; ++id) {
      top = logit(l, run, 1, 0, id) > logit(l, run, 1, 0, top) ? id : top;
    }
    return top;
  }

  FixtureModel model_;
};

TEST_P(Generate, PrefillGivesTheReferenceLogits) {
  const std::int64_t tokens = model_.tokens();
  const std::int64_t vocabulary = model_.config.vocab_size;
  const Lowered l = lowered(Phase::prefill, 64, tokens);
  ResidentRun run(l, table_under_test());
  model_.fill_weights(l, run);
  const std::vector<std::int32_t> all = model_.step_rows().front().ids;
  const std::vector<double>& expected = model_.expected.at("logits");
  ASSERT_EQ(std::ssize(expected), std::ssize(all) * vocabulary);
  for (std::int64_t begin = 0; begin < std::ssize(all); begin += tokens) {
    pass(l, run, {all.begin() + begin, all.begin() + begin + tokens}, 0, tokens);
    for (std::int64_t row = 0; row < tokens; ++row) {
      for (std::int64_t id = 0; id < vocabulary; ++id) {
        const auto at = static_cast<std::size_t>((begin + row) * vocabulary + id);
        ASSERT_NEAR(logit(l, run, tokens, row, id), expected[at], logit_limit)
            << begin + row << " " << id;
      }
    }
  }
}

TEST_P(Generate, GreedyContinuationsAreTheReferenceIds) {
  const Lowered prefill = lowered(Phase::prefill, 64, 1);
  const Lowered decode = lowered(Phase::decode, 1, 1);
  for (const auto& sample : model_.numbers["greedy"]) {
    ResidentRun first(prefill, table_under_test());
    ResidentRun next(decode, table_under_test());
    model_.fill_weights(prefill, first);
    model_.fill_weights(decode, next);
    const auto prompt = sample["prompt"].get<std::vector<std::int32_t>>();
    pass(prefill, first, prompt, 0, 1);
    std::vector<std::int32_t> found = {best(prefill, first)};
    for (std::size_t s = 0; s < decode.workload.spans.size(); ++s) {
      const Span& span = decode.workload.spans[s];
      if (span.name.ends_with("kv_cache")) {
        const auto same = [&span](const Span& other) { return other.name == span.name; };
        const auto& spans = prefill.workload.spans;
        const auto from = std::find_if(spans.begin(), spans.end(), same);
        std::memcpy(next.span(SpanId(s)),
                    first.span(SpanId(from - spans.begin())),
                    static_cast<std::size_t>(span.bytes));
      }
    }
    const auto expected = sample["new_ids"].get<std::vector<std::int32_t>>();
    while (found.size() < expected.size()) {
      const auto position = static_cast<std::int32_t>(prompt.size() + found.size() - 1);
      pass(decode, next, {found.back()}, position, 1);
      found.push_back(best(decode, next));
    }
    EXPECT_EQ(found, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Generate, testing::ValuesIn(models_under_test()), model_name);

}  // namespace
}  // namespace parbuckle
