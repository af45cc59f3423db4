#include "engine/data/batch.h"

#include <algorithm>

#include "parbuckle/units.h"

namespace parbuckle {

MicroBatch lay_out(std::span<const Example> examples) {
  MicroBatch out;
  for (const Example& example : examples) {
    const auto begin = static_cast<std::int32_t>(out.token_ids.size());
    for (std::size_t i = 0; i < example.ids.size(); ++i) {
      const bool last = i + 1 == example.ids.size();
      const std::int32_t label = last ? no_label : example.labels[i + 1];
      out.token_ids.push_back(example.ids[i]);
      out.positions.push_back(static_cast<std::int32_t>(i));
      out.segment_begin.push_back(begin);
      out.target_ids.push_back(label == no_label ? -1 : label);
      out.targets += label == no_label ? 0 : 1;
    }
    ++out.sequences;
  }
  out.tokens = static_cast<std::int64_t>(out.token_ids.size());
  out.rows = round_up(out.tokens, row_multiple);
  for (auto* column : {&out.token_ids, &out.positions, &out.segment_begin, &out.target_ids}) {
    column->resize(static_cast<std::size_t>(out.rows), -1);
  }
  return out;
}

void finish_step(StepBatch& step) {
  step.tokens = 0;
  step.targets = 0;
  step.touched.clear();
  for (const MicroBatch& batch : step.micro_batches) {
    step.tokens += batch.tokens;
    step.targets += batch.targets;
    step.touched.insert(
        step.touched.end(), batch.token_ids.begin(), batch.token_ids.begin() + batch.tokens);
  }
  std::sort(step.touched.begin(), step.touched.end());
  step.touched.erase(std::unique(step.touched.begin(), step.touched.end()), step.touched.end());
  for (MicroBatch& batch : step.micro_batches) {
    batch.slots.assign(static_cast<std::size_t>(batch.rows), -1);
    for (std::size_t row = 0; row < static_cast<std::size_t>(batch.tokens); ++row) {
      const auto found =
          std::lower_bound(step.touched.begin(), step.touched.end(), batch.token_ids[row]);
      batch.slots[row] = static_cast<std::int32_t>(found - step.touched.begin());
    }
  }
}

}  // namespace parbuckle
