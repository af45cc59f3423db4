#include <algorithm>
#include <utility>

#include "parbuckle/units.h"

#include "engine/graph/lowering.h"
#include "engine/graph/storage.h"

namespace parbuckle {
namespace {

constexpr std::int64_t tensor_alignment = 64;
constexpr std::int64_t part_row_multiple = 16;
constexpr Storage pinned_batch = {.role = Role::batch, .pinned = true};
constexpr Storage pinned_statistic = {.role = Role::statistic, .pinned = true};

Storage persistent(Role role) {
  return {.role = role, .persistent = true, .starts_zero = role != Role::weight};
}

}  // namespace

std::int64_t batch_column_offset(BatchColumn column, std::int64_t rows) {
  const auto index = static_cast<std::int64_t>(column);
  return index * 64 + round_up(rows * index * 4, 64);
}

Status Lowering::check_options() const {
  const auto& shapes = options_.shapes;
  if (shapes.empty() || !std::is_sorted(shapes.begin(), shapes.end())) {
    return invalid("lowering: shapes must be one or more, ascending");
  }
  if (options_.micro_batches < 1 || (cached() && options_.micro_batches != 1)) {
    return invalid("lowering: micro_batches is " + std::to_string(options_.micro_batches) +
                   "; allowed: 1 or more, 1 for prefill and decode");
  }
  for (const ShapeKey& key : shapes) {
    if (key.rows < 1 || (options_.phase != Phase::decode && key.rows % 64 != 0)) {
      return invalid("lowering: a shape has " + std::to_string(key.rows) +
                     " rows; allowed: multiples of 64, any number when decoding");
    }
    if (key.cache_rows != (cached() ? shapes.back().cache_rows : 0) ||
        (cached() && key.cache_rows < 1)) {
      return invalid("lowering: a shape has " + std::to_string(key.cache_rows) +
                     " cache rows; allowed: 0 in train and eval, else one positive number for all");
    }
  }
  if (options_.block_elements < 1024 || options_.block_elements % 1024 != 0) {
    return invalid("lowering: block_elements is " + std::to_string(options_.block_elements) +
                   "; allowed: multiples of 1024");
  }
  if (cached() && (options_.logit_rows < 1 || options_.logit_rows > shapes.back().rows)) {
    return invalid("lowering: logit_rows is " + std::to_string(options_.logit_rows) +
                   "; allowed: 1 to the rows of the pass");
  }
  return {};
}

SpanId Lowering::span(const std::string& name, std::int64_t bytes, const Storage& storage) {
  return add_span(out_.workload, name, bytes, options_.block_elements * 4, storage);
}

void Lowering::place_batch() {
  Workload& w = out_.workload;
  StepBindings& bindings = out_.bindings;
  const BatchValues& in = graph_.inputs;
  bindings.batch = add_token_span(w,
                                  "batch",
                                  batch_column_count * 4,
                                  batch_column_count * 64,
                                  {.role = Role::batch, .dtype = DType::i32, .pinned = true});
  const ValueId columns[] = {in.tokens, in.positions, in.segment_begin, in.targets, in.slots};
  for (int i = 0; i < batch_column_count; ++i) {
    places_[columns[i]] = {.span = bindings.batch, .offset = i * 64, .row_bytes = i * 4};
  }
  if (in.rotary.valid()) {
    bindings.inverse_frequencies =
        span("inverse_frequencies", value(in.inverse_frequencies).rows * 4, pinned_batch);
    places_[in.inverse_frequencies] = {.span = bindings.inverse_frequencies};
    places_[in.rotary] = {
        .span = add_token_span(w, "rotary", value(in.rotary).columns * 4, 0, pinned_batch)};
  }
  if (cached()) {
    bindings.selected = span("selected", options_.logit_rows * 4, pinned_batch);
    bindings.logits = span("logits", options_.logit_rows * vocabulary_ * 4, pinned_statistic);
    return;
  }
  bindings.loss = add_token_span(
      w, "loss", 0, 64, {.role = Role::statistic, .dtype = DType::f64, .pinned = true});
  places_[in.loss] = {.span = bindings.loss};
  if (!train() || vocabulary_ > options_.one_pass_vocabulary) {
    const ValueId stats = head().forward.back().operands[0].value;
    places_[stats] = {
        .span = add_token_span(w, "head.stats", value(stats).columns * 4, 0, pinned_statistic)};
  }
}

void Lowering::place_step() {
  StepBindings& bindings = out_.bindings;
  const std::int64_t tokens = options_.micro_batches * options_.shapes.back().rows;
  bindings.touched_capacity = std::min(vocabulary_, tokens);
  const auto ids_bytes =
      static_cast<std::int64_t>(sizeof(TouchedRows)) + bindings.touched_capacity * 4;
  bindings.step = span("step", sizeof(StepScalars), pinned_batch);
  places_[graph_.inputs.step] = {.span = bindings.step};
  bindings.touched = span("touched", ids_bytes, pinned_batch);
  bindings.update = span("update", sizeof(UpdateScalars), pinned_statistic);
  update_touched_ = span("update_touched", ids_bytes, pinned_statistic);
}

void Lowering::place_residuals() {
  for (std::size_t i = 0; i < graph_.values.size(); ++i) {
    const GraphValue& v = graph_.values[i];
    const bool residual = v.role == ValueRole::residual;
    if (residual || (v.role == ValueRole::stream && train())) {
      const Role role = residual ? Role::boundary : Role::stream;
      places_[ValueId(i)] = {
          .span = add_token_span(out_.workload, v.name, v.columns * 4, 0, {.role = role})};
    }
  }
}

/// Equal parts of at most block_elements, whose rows are a multiple of 16 (all but the last).
Table Lowering::cut_table(ValueId parameter, const std::string& name) {
  const std::int64_t rows = value(parameter).rows;
  const std::int64_t columns = value(parameter).columns;
  std::int64_t count = (rows * columns + options_.block_elements - 1) / options_.block_elements;
  std::int64_t per_part = rows;
  while (count > 1) {
    per_part = round_up((rows + count - 1) / count, part_row_multiple);
    if (per_part * columns <= options_.block_elements || per_part == part_row_multiple) {
      break;
    }
    ++count;
  }
  Table table = {.parameter = parameter};
  for (std::int64_t begin = 0; begin < rows; begin += per_part) {
    TablePart part = {.row_begin = begin, .rows = std::min(per_part, rows - begin)};
    const std::string prefix = name + "." + std::to_string(table.parts.size());
    const std::int64_t bytes = part.rows * columns * 4;
    part.weight = span(prefix + ".weight", bytes, persistent(Role::weight));
    if (train()) {
      part.moment1 = span(prefix + ".moment1", bytes, persistent(Role::moment1));
      part.moment2 = span(prefix + ".moment2", bytes, persistent(Role::moment2));
    }
    table.parts.push_back(part);
  }
  return table;
}

std::int32_t Lowering::add_partial(const std::string& name, std::int64_t count) {
  partial_blocks_.emplace_back("partials." + name, count * 8);
  return static_cast<std::int32_t>(partial_blocks_.size() - 1);
}

void Lowering::place_tables() {
  tables_.push_back(cut_table(embedding_table_, "embedding"));
  if (!tied()) {
    tables_.push_back(cut_table(head_table_, "head"));
  }
  for (const TablePart& part : tables_.back().parts) {
    out_.bindings.logit_rows_begin.push_back(part.row_begin);
  }
  out_.bindings.logit_rows_begin.push_back(vocabulary_);
}

void Lowering::place_head_gradients() {
  const std::int64_t sparse_bytes = out_.bindings.touched_capacity * hidden_ * 4;
  sparse_gradient_ =
      span("embedding.sparse_gradient", sparse_bytes, {.role = Role::sparse_gradient});
  table_partial_ = add_partial("embedding.rows", vocabulary_);
  if (tied()) {
    // In memory until the embedding's backward, so that the norm reads nothing from the drive.
    touched_rows_ =
        span("head.touched_rows", sparse_bytes, {.role = Role::sparse_gradient, .pinned = true});
  }
  std::vector<TablePart>& parts = tables_.back().parts;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const std::string name = "head." + std::to_string(p);
    const std::int64_t count = parts[p].rows * hidden_;
    parts[p].gradient = span(name + ".gradient", count * 4, {.role = Role::gradient});
    if (!tied()) {
      head_part_partial_.push_back(
          add_partial(name, (count + square_sum_chunk - 1) / square_sum_chunk));
    }
  }
}

void Lowering::place_packed(const GraphUnit& unit) {
  Packed packed;
  std::int64_t bytes = 0;
  for (const ValueId id : unit.parameters) {
    if (id == embedding_table_ || id == head_table_) {
      continue;
    }
    packed.parameters.push_back(id);
    packed.offsets.push_back(bytes);
    bytes = round_up(bytes + value(id).rows * value(id).columns * 4, tensor_alignment);
  }
  if (packed.parameters.empty()) {
    return;
  }
  Workload& w = out_.workload;
  const std::string& name = unit.name;
  packed.weight = span(name + ".weight", bytes, persistent(Role::weight));
  if (train()) {
    packed.moment1 = span(name + ".moment1", bytes, persistent(Role::moment1));
    packed.moment2 = span(name + ".moment2", bytes, persistent(Role::moment2));
    packed.gradient = span(name + ".gradient", bytes, {.role = Role::gradient});
    const std::int64_t count = w.spans[packed.gradient.index()].bytes / 4;
    packed_partial_[name] = add_partial(name, (count + square_sum_chunk - 1) / square_sum_chunk);
  }
  for (std::size_t i = 0; i < packed.parameters.size(); ++i) {
    const ValueId id = packed.parameters[i];
    places_[id] = {.span = packed.weight, .offset = packed.offsets[i]};
    if (train()) {
      const auto at = std::find(unit.parameters.begin(), unit.parameters.end(), id);
      const ValueId gradient =
          unit.gradients[static_cast<std::size_t>(at - unit.parameters.begin())];
      places_[gradient] = {.span = packed.gradient, .offset = packed.offsets[i]};
    }
  }
  packed_[name] = std::move(packed);
}

void Lowering::place_partials() {
  partials_ = add_span_of(out_.workload,
                          "partials",
                          partial_blocks_,
                          {.role = Role::statistic, .dtype = DType::f64, .pinned = true});
  out_.bindings.partials = partials_;
  out_.bindings.partial_count = out_.workload.spans[partials_.index()].bytes / 8;
}

void Lowering::list_table(const Table& table, ParameterPlacement& placement) {
  const auto block = [this](SpanId span) {
    return span.valid() ? out_.workload.spans[span.index()].blocks.front() : BlockId();
  };
  for (const TablePart& part : table.parts) {
    placement.pieces.push_back({.weight = block(part.weight),
                                .moment1 = block(part.moment1),
                                .moment2 = block(part.moment2),
                                .gradient = block(part.gradient),
                                .offset = 0,
                                .first = part.row_begin * hidden_,
                                .count = part.rows * hidden_});
  }
}

void Lowering::list_packed(const Packed& packed) {
  const auto block = [this](SpanId span, std::size_t b) {
    return span.valid() ? out_.workload.spans[span.index()].blocks[b] : BlockId();
  };
  const std::int64_t block_size = options_.block_elements * 4;
  for (std::size_t i = 0; i < packed.parameters.size(); ++i) {
    const ValueId id = packed.parameters[i];
    const std::int64_t elements = value(id).rows * value(id).columns;
    for (std::int64_t first = 0; first < elements;) {
      const std::int64_t at = packed.offsets[i] + first * 4;
      const auto b = static_cast<std::size_t>(at / block_size);
      const std::int64_t offset = at % block_size;
      const std::int64_t count = std::min(elements - first, (block_size - offset) / 4);
      out_.parameters[id.index()].pieces.push_back({.weight = block(packed.weight, b),
                                                    .moment1 = block(packed.moment1, b),
                                                    .moment2 = block(packed.moment2, b),
                                                    .gradient = block(packed.gradient, b),
                                                    .offset = offset,
                                                    .first = first,
                                                    .count = count});
      first += count;
    }
  }
}

void Lowering::list_parameters() {
  for (const GraphValue& v : graph_.values) {
    if (v.role == ValueRole::parameter) {
      out_.parameters.push_back({.name = v.name});
    }
  }
  for (const Table& table : tables_) {
    list_table(table, out_.parameters[table.parameter.index()]);
  }
  for (const auto& [name, packed] : packed_) {
    list_packed(packed);
  }
}

}  // namespace parbuckle
