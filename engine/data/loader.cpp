#include "engine/data/loader.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "parbuckle/units.h"

#include "engine/data/json_part.h"
#include "engine/data/shuffle.h"

namespace parbuckle {
namespace {

constexpr std::int64_t exact_up_to = 1'000'000;

std::int64_t divide_up(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

/// The rows of one epoch in the order they are taken.
class Order {
 public:
  Order(const Dataset& data, const LoaderOptions& options, std::int64_t epoch) {
    if (options.shuffle) {
      shuffle_.emplace(data.rows(), options.seed, epoch);
    }
  }
  [[nodiscard]] std::int64_t operator()(std::int64_t position) const {
    return shuffle_ ? (*shuffle_)(position) : position;
  }

 private:
  std::optional<Shuffle> shuffle_;
};

Status check(const LoaderOptions& options) {
  constexpr std::int64_t most = 1 << 20;
  const auto in_range = [](std::int64_t value) { return value >= 1 && value <= most; };
  if (!in_range(options.batch_rows)) {
    return invalid("--per-device-train-batch-size: found " + std::to_string(options.batch_rows) +
                   ", allowed are 1 to " + std::to_string(most));
  }
  if (!in_range(options.accumulation)) {
    return invalid("--gradient-accumulation-steps: found " + std::to_string(options.accumulation) +
                   ", allowed are 1 to " + std::to_string(most));
  }
  if (options.max_steps == 0 || options.max_steps < -1) {
    return invalid("--max-steps: found " + std::to_string(options.max_steps) +
                   ", allowed are 1 and more, or -1 to count epochs");
  }
  if (options.max_steps < 0 && !(options.epochs > 0 && options.epochs < 1e9)) {
    return invalid("--num-train-epochs: found " + std::to_string(options.epochs) +
                   ", it must be above 0");
  }
  return {};
}

}  // namespace

std::string to_json(const DataCursor& cursor) {
  return nlohmann::ordered_json{
      {"step", cursor.step}, {"epoch", cursor.epoch}, {"position", cursor.position}}
      .dump();
}

Result<DataCursor> data_cursor_from_json(std::string_view text) {
  const auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return invalid("data cursor: not valid JSON");
  }
  PARBUCKLE_TRY(JsonPart(json, "data cursor").only({"step", "epoch", "position"}));
  for (const char* key : {"step", "epoch", "position"}) {
    if (!json.contains(key) || !json.at(key).is_number_integer()) {
      return invalid("data cursor." + std::string(key) + ": expected a whole number");
    }
  }
  return DataCursor{.step = json.at("step").get<std::int64_t>(),
                    .epoch = json.at("epoch").get<std::int64_t>(),
                    .position = json.at("position").get<std::int64_t>()};
}

std::int64_t Loader::micro_batches_per_epoch() const {
  return divide_up(data_->rows(), options_.batch_rows);
}

Result<Loader> Loader::create(const Dataset& data, const LoaderOptions& options) {
  PARBUCKLE_TRY(check(options));
  Loader loader(data, options);
  loader.steps_per_epoch_ = divide_up(loader.micro_batches_per_epoch(), options.accumulation);
  const double steps = options.epochs * static_cast<double>(loader.steps_per_epoch_);
  loader.total_steps_ =
      options.max_steps > 0 ? options.max_steps : static_cast<std::int64_t>(std::ceil(steps));
  return loader;
}

Status Loader::seek(const DataCursor& cursor) {
  const std::int64_t rows_of_step = options_.batch_rows * options_.accumulation;
  const auto expected = [&](std::int64_t step) {
    const std::int64_t in_epoch = step % steps_per_epoch_;
    return DataCursor{step, step / steps_per_epoch_, in_epoch * rows_of_step};
  };
  const bool possible = cursor.step >= 0 && cursor.step <= total_steps_;
  if (!possible || cursor != expected(cursor.step)) {
    return invalid("the data cursor " + to_json(cursor) + " is none of this data with " +
                   std::to_string(data_->rows()) + " rows in " + std::to_string(total_steps_) +
                   " steps: the data or the batch size has changed");
  }
  cursor_ = cursor;
  return {};
}

Result<MicroBatch> Loader::micro_batch(std::int64_t epoch,
                                       std::int64_t first,
                                       std::int64_t count) const {
  const Order order(*data_, options_, epoch);
  std::vector<Example> examples;
  for (std::int64_t i = 0; i < count; ++i) {
    PARBUCKLE_ASSIGN(std::vector<Example> row, data_->examples(order(first + i)));
    std::move(row.begin(), row.end(), std::back_inserter(examples));
  }
  return lay_out(examples);
}

Result<std::optional<StepBatch>> Loader::next() {
  if (cursor_.step >= total_steps_) {
    return std::optional<StepBatch>();
  }
  StepBatch step{.step = cursor_.step, .epoch = cursor_.epoch};
  std::int64_t position = cursor_.position;
  for (std::int64_t m = 0; m < options_.accumulation && position < data_->rows(); ++m) {
    const std::int64_t count = std::min(options_.batch_rows, data_->rows() - position);
    PARBUCKLE_ASSIGN(MicroBatch batch, micro_batch(cursor_.epoch, position, count));
    step.micro_batches.push_back(std::move(batch));
    position += count;
  }
  finish_step(step);
  ++cursor_.step;
  cursor_.position = position;
  if (position >= data_->rows()) {
    ++cursor_.epoch;
    cursor_.position = 0;
  }
  return std::optional(std::move(step));
}

Result<std::vector<std::int64_t>> Loader::exact_rows() const {
  std::set<std::int64_t> found;
  for (std::int64_t step = 0; step < total_steps_; ++step) {
    const std::int64_t epoch = step / steps_per_epoch_;
    const Order order(*data_, options_, epoch);
    std::int64_t position = step % steps_per_epoch_ * options_.batch_rows * options_.accumulation;
    for (std::int64_t m = 0; m < options_.accumulation && position < data_->rows(); ++m) {
      const std::int64_t end = std::min(position + options_.batch_rows, data_->rows());
      std::int64_t tokens = 0;
      for (; position < end; ++position) {
        PARBUCKLE_ASSIGN(const Dataset::Row row, data_->row(order(position)));
        tokens += row.tokens;
      }
      found.insert(round_up(tokens, row_multiple));
    }
    const bool repeats = !options_.shuffle || options_.batch_rows == 1;
    if (repeats && step + 1 == steps_per_epoch_) {
      break;  // later epochs have the same micro-batches in another order
    }
  }
  return std::vector<std::int64_t>(found.begin(), found.end());
}

Result<std::vector<std::int64_t>> Loader::micro_batch_rows() const {
  const std::int64_t rows_of_step = options_.batch_rows * options_.accumulation;
  if (total_steps_ <= exact_up_to / rows_of_step) {
    return exact_rows();
  }
  std::vector<std::int64_t> all;
  const std::int64_t most = std::min(options_.batch_rows, data_->rows()) * data_->report().longest;
  for (std::int64_t rows = row_multiple; rows <= round_up(most, row_multiple);
       rows += row_multiple) {
    all.push_back(rows);
  }
  return all;
}

}  // namespace parbuckle
