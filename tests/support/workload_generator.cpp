#include "tests/support/workload_generator.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

// What one trainable tensor group needs: weight, moments, and a gradient unless its gradient is sparse.
struct Trained {
  SpanId weight;
  SpanId moment1;
  SpanId moment2;
  SpanId gradient;
  std::int64_t elements = 0;
};

struct Work {
  double flops = 0;
  double traffic_bytes = 0;
  std::int64_t scratch_bytes = 0;
};

class Generator {
 public:
  explicit Generator(const TransformerSizes& sizes) : s_(sizes) {}

  Workload make() {
    w_.name = "generated transformer";
    w_.phase = s_.phase;
    w_.micro_batches = s_.micro_batches;
    w_.clipping = s_.clipping;
    w_.signature = "generated";
    if (s_.rows > 64) {
      w_.shapes.push_back({64, 0});
    }
    w_.shapes.push_back({s_.rows, 0});
    common();
    embedding();
    for (std::int32_t layer = 0; layer < s_.layers; ++layer) {
      const std::string name = "layer" + std::to_string(layer);
      const std::int64_t attention = s_.width + 2 * s_.width * (s_.width + s_.kv_width);
      half_layer(name + ".attention", attention, 4 * s_.width + 2 * s_.kv_width + s_.heads);
      half_layer(name + ".mlp", s_.width + 3 * s_.width * s_.intermediate, 3 * s_.intermediate);
    }
    head();
    step_tasks();
    return std::move(w_);
  }

 private:
  [[nodiscard]] bool train() const { return s_.phase == Phase::train; }

  SpanId new_span(const std::string& name, bool per_micro_batch) {
    w_.spans.push_back({name, {}, 0, per_micro_batch});
    return SpanId(w_.spans.size() - 1);
  }

  void add_block(SpanId span, Block block) {
    Span& into = w_.spans[span.index()];
    block.span = span;
    block.span_offset = into.bytes;
    block.per_micro_batch = into.per_micro_batch;
    into.bytes += block_bytes(block, w_.shapes.back());
    into.blocks.push_back(BlockId(w_.blocks.size()));
    w_.blocks.push_back(std::move(block));
  }

  // `elements` of f32 in blocks of at most block_elements.
  SpanId parameters(const std::string& name, Role role, std::int64_t elements) {
    const SpanId span = new_span(name, false);
    std::int32_t part = 0;
    for (std::int64_t at = 0; at < elements; at += s_.block_elements, ++part) {
      Block block;
      block.name = elements > s_.block_elements ? name + "." + std::to_string(part) : name;
      block.role = role;
      block.bytes = 4 * std::min(s_.block_elements, elements - at);
      block.persistent = role != Role::gradient && role != Role::sparse_gradient;
      block.starts_zero = role == Role::moment1 || role == Role::moment2;
      add_block(span, std::move(block));
    }
    return span;
  }

  SpanId rows(const std::string& name, Role role, std::int64_t row_bytes) {
    const SpanId span = new_span(name, true);
    Block block;
    block.name = name;
    block.role = role;
    block.row_bytes = row_bytes;
    add_block(span, std::move(block));
    return span;
  }

  SpanId pinned(const std::string& name, Role role, std::int64_t bytes, bool per_micro_batch) {
    const SpanId span = new_span(name, per_micro_batch);
    Block block;
    block.name = name;
    block.role = role;
    block.bytes = bytes;
    block.pinned = true;
    add_block(span, std::move(block));
    return span;
  }

  Trained trained(const std::string& name, std::int64_t elements, bool dense_gradient) {
    Trained t;
    t.elements = elements;
    t.weight = parameters(name + ".weight", train() ? Role::weight : Role::frozen_weight, elements);
    if (train()) {
      t.moment1 = parameters(name + ".moment1", Role::moment1, elements);
      t.moment2 = parameters(name + ".moment2", Role::moment2, elements);
    }
    if (train() && dense_gradient) {
      t.gradient = parameters(name + ".gradient", Role::gradient, elements);
    }
    return t;
  }

  FamilyId family(const std::string& name, Work work, bool per_shape) {
    Family f;
    f.name = name;
    f.scratch_bytes = work.scratch_bytes;
    for (const ShapeKey& shape : w_.shapes) {
      if (!per_shape && shape != w_.shapes.back()) {
        continue;
      }
      const double share =
          per_shape ? static_cast<double>(shape.rows) / static_cast<double>(s_.rows) : 1;
      f.programs.push_back(ProgramId(static_cast<std::int64_t>(programs_++)));
      f.flops.push_back(work.flops * share);
      f.traffic_bytes.push_back(work.traffic_bytes * share);
    }
    w_.families.push_back(std::move(f));
    return FamilyId(w_.families.size() - 1);
  }

  TaskTemplate task(const std::string& name, Work work, std::vector<Use> uses, bool per_shape) {
    return {family(name, work, per_shape), std::move(uses)};
  }

  void common() {
    tokens_ = pinned("batch.tokens", Role::batch, 4 * s_.rows, true);
    step_ = pinned("batch.step", Role::batch, 64, false);
    touched_ = pinned("batch.touched", Role::batch, 4 * s_.rows * s_.micro_batches + 16, false);
    loss_ = pinned("statistic.loss", Role::statistic, 16, true);
    partials_ = pinned("statistic.partials", Role::statistic, 64 * kib, false);
    update_ = pinned("statistic.update", Role::statistic, 64, false);
    if (train()) {
      stream_ = rows("stream", Role::stream, 4 * s_.width);
    }
  }

  void zero_and_norm(Unit& unit, const std::string& name, SpanId gradient, std::int64_t elements) {
    const double bytes = 4 * static_cast<double>(elements);
    unit.gradient_begin.push_back(
        task(name + ".zero", {0, bytes, 0}, {{gradient, -1, Access::write}}, false));
    unit.gradient_end.push_back(
        task(name + ".norm",
             {0, bytes, 0},
             {{gradient, -1, Access::read}, {partials_, -1, Access::update}},
             false));
  }

  void dense_updates(const std::string& name, const Trained& t) {
    for (std::size_t b = 0; b < w_.spans[t.weight.index()].blocks.size(); ++b) {
      const auto block = static_cast<std::int32_t>(b);
      const BlockId id = w_.spans[t.weight.index()].blocks[b];
      const auto bytes = static_cast<double>(w_.blocks[id.index()].bytes);
      w_.updates.push_back({t.weight,
                            block,
                            task(name + ".adamw" + std::to_string(b),
                                 {0, 7 * bytes, 0},
                                 {{t.weight, block, Access::update},
                                  {t.moment1, block, Access::update},
                                  {t.moment2, block, Access::update},
                                  {t.gradient, block, Access::read},
                                  {update_, -1, Access::read}},
                                 false)});
    }
  }

  // Rows of each table part.
  [[nodiscard]] std::vector<std::int64_t> part_elements() const {
    const std::int64_t most = std::max<std::int64_t>(1, s_.block_elements / s_.width) * s_.width;
    std::vector<std::int64_t> parts;
    for (std::int64_t left = s_.vocabulary * s_.width; left > 0; left -= most) {
      parts.push_back(std::min(left, most));
    }
    return parts;
  }

  void embedding() {
    Unit unit;
    unit.name = "embedding";
    unit.alternatives.push_back({"keep", {}, {}});
    boundary_ = rows("embedding.boundary", Role::boundary, 4 * s_.width);
    const std::vector<std::int64_t> parts = part_elements();
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const std::string name = "embedding.part" + std::to_string(p);
      tables_.push_back(trained(name, parts[p], s_.tied));
      unit.alternatives[0].forward.push_back(
          task("embedding.forward",
               {0, static_cast<double>(8 * s_.rows * s_.width), 0},
               {{tokens_, -1, Access::read},
                {tables_[p].weight, -1, Access::read},
                {boundary_, -1, p == 0 ? Access::write : Access::update}},
               true));
    }
    if (train()) {
      embedding_gradient(unit);
    }
    w_.units.push_back(std::move(unit));
  }

  void embedding_gradient(Unit& unit) {
    const std::int64_t touched_rows = std::min(s_.vocabulary, s_.rows * s_.micro_batches);
    const std::int64_t elements = touched_rows * s_.width;
    const std::int64_t whole = s_.block_elements;
    s_.block_elements = std::max(elements, whole);  // one block however many rows
    sparse_ = parameters("embedding.sparse_gradient", Role::sparse_gradient, elements);
    if (s_.tied) {
      dense_rows_ = parameters("embedding.dense_rows", Role::sparse_gradient, elements);
    }
    s_.block_elements = whole;
    const double bytes = 4 * static_cast<double>(elements);
    unit.gradient_begin.push_back(
        task("embedding.zero", {0, bytes, 0}, {{sparse_, -1, Access::write}}, false));
    unit.alternatives[0].backward.push_back(task(
        "embedding.backward",
        {0, static_cast<double>(12 * s_.rows * s_.width), 0},
        {{tokens_, -1, Access::read}, {stream_, -1, Access::read}, {sparse_, -1, Access::update}},
        true));
    std::vector<Use> norm{
        {touched_, -1, Access::read}, {sparse_, -1, Access::read}, {partials_, -1, Access::update}};
    if (s_.tied) {
      norm.push_back({dense_rows_, -1, Access::read});
    }
    unit.gradient_end.push_back(task("embedding.norm", {0, 2 * bytes, 0}, std::move(norm), false));
    for (const Trained& t : tables_) {
      std::vector<Use> uses{{t.weight, 0, Access::update},
                            {t.moment1, 0, Access::update},
                            {t.moment2, 0, Access::update},
                            {sparse_, -1, Access::read},
                            {touched_, -1, Access::read},
                            {update_, -1, Access::read}};
      if (s_.tied) {
        uses.push_back({t.gradient, 0, Access::read});
      }
      w_.updates.push_back({t.weight,
                            0,
                            task("embedding.adamw_table",
                                 {0, 28 * static_cast<double>(t.elements), 0},
                                 std::move(uses),
                                 false)});
    }
  }

  void half_layer(const std::string& name, std::int64_t elements, std::int64_t saved_per_row) {
    const Trained t = trained(name, elements, true);
    const SpanId in = boundary_;
    boundary_ = rows(name + ".boundary", Role::boundary, 4 * s_.width);
    Unit unit;
    unit.name = name;
    const double flops = 2 * static_cast<double>(elements) * static_cast<double>(s_.rows);
    const double traffic = 4 * static_cast<double>(saved_per_row * s_.rows);
    const std::int64_t temporaries = 4 * s_.rows * saved_per_row;
    const std::vector<Use> forward{{tokens_, -1, Access::read},
                                   {t.weight, -1, Access::read},
                                   {in, -1, Access::read},
                                   {boundary_, -1, Access::write}};
    std::vector<Use> backward{{tokens_, -1, Access::read},
                              {t.weight, -1, Access::read},
                              {in, -1, Access::read},
                              {stream_, -1, Access::update},
                              {t.gradient, -1, Access::update}};
    Alternative recompute{
        "recompute", {task(name + ".forward", {flops, traffic, temporaries}, forward, true)}, {}};
    if (!train()) {
      recompute.name = "keep";
      unit.alternatives = {std::move(recompute)};
      w_.units.push_back(std::move(unit));
      return;
    }
    recompute.backward = {task(
        name + ".recompute_backward", {3 * flops, 3 * traffic, 2 * temporaries}, backward, true)};
    const SpanId saved = rows(name + ".activation", Role::activation, 4 * saved_per_row);
    std::vector<Use> forward_keep = forward;
    forward_keep.push_back({saved, -1, Access::write});
    backward.push_back({saved, -1, Access::read});
    Alternative keep{
        "keep",
        {task(name + ".forward_keep", {flops, traffic, temporaries / 4}, forward_keep, true)},
        {task(name + ".backward", {2 * flops, 2 * traffic, temporaries}, backward, true)}};
    unit.alternatives = {std::move(keep), std::move(recompute)};
    zero_and_norm(unit, name, t.gradient, elements);
    dense_updates(name, t);
    w_.units.push_back(std::move(unit));
  }

  void head() {
    Unit unit;
    unit.name = "head";
    const Trained norm = trained("head.norm", s_.width, true);
    const std::vector<std::int64_t> parts = part_elements();
    std::vector<Trained> tables = tables_;
    for (std::size_t p = 0; !s_.tied && p < parts.size(); ++p) {
      tables[p] = trained("head.part" + std::to_string(p), parts[p], true);
    }
    unit.alternatives = {s_.staged_head ? staged_head(norm, tables) : whole_head(norm, tables)};
    if (!train()) {
      w_.units.push_back(std::move(unit));
      return;
    }
    for (std::size_t p = 0; p < tables.size(); ++p) {
      const std::string name = "head.part" + std::to_string(p);
      zero_and_norm(unit, name, tables[p].gradient, tables[p].elements);
      if (s_.tied) {
        gather_touched(unit, tables[p].gradient, p == 0);
      } else {
        dense_updates(name, tables[p]);
      }
    }
    zero_and_norm(unit, "head.norm", norm.gradient, s_.width);
    dense_updates("head.norm", norm);
    w_.units.push_back(std::move(unit));
  }

  Alternative whole_head(const Trained& norm, const std::vector<Trained>& tables) {
    const double flops = 6.0 * static_cast<double>(s_.rows * s_.width * s_.vocabulary);
    const std::int64_t scratch = 4 * std::min<std::int64_t>(256, s_.rows) * s_.vocabulary;
    std::vector<Use> uses{{tokens_, -1, Access::read},
                          {step_, -1, Access::read},
                          {loss_, -1, Access::write},
                          {norm.weight, -1, Access::read},
                          {boundary_, -1, Access::read}};
    for (const Trained& t : tables) {
      uses.push_back({t.weight, -1, Access::read});
    }
    if (!train()) {
      return {"keep", {task("head.forward", {flops / 3, 0, scratch}, std::move(uses), true)}, {}};
    }
    uses.push_back({stream_, -1, Access::write});
    uses.push_back({norm.gradient, -1, Access::update});
    for (const Trained& t : tables) {
      uses.push_back({t.gradient, -1, Access::update});
    }
    return {"keep", {}, {task("head.backward", {flops, 0, scratch}, std::move(uses), true)}};
  }

  Alternative staged_head(const Trained& norm, const std::vector<Trained>& tables) {
    Alternative alternative{"keep", {}, {}};
    const SpanId stats = rows("head.stats", Role::statistic, 16);
    const SpanId saved = train() ? rows("head.saved", Role::activation, 4 * s_.width) : SpanId();
    for (std::size_t p = 0; p < tables.size(); ++p) {
      const double flops = 2.0 * static_cast<double>(s_.rows * tables[p].elements);
      const Access begins = p == 0 ? Access::write : Access::update;
      std::vector<Use> forward{{tables[p].weight, -1, Access::read}, {stats, -1, begins}};
      if (p == 0) {
        forward.insert(forward.end(),
                       {{norm.weight, -1, Access::read}, {boundary_, -1, Access::read}});
      }
      if (train()) {
        forward.push_back({saved, -1, p == 0 ? Access::write : Access::read});
      }
      if (p + 1 == tables.size()) {
        forward.push_back({loss_, -1, Access::write});
      }
      alternative.forward.push_back(
          task("head.stats", {flops, 0, 4 * s_.rows}, std::move(forward), true));
      if (!train()) {
        continue;
      }
      std::vector<Use> backward{{step_, -1, Access::read},
                                {saved, -1, Access::read},
                                {stats, -1, Access::read},
                                {tables[p].weight, -1, Access::read},
                                {tables[p].gradient, -1, Access::update},
                                {stream_, -1, begins}};
      if (p + 1 == tables.size()) {
        backward.insert(backward.end(),
                        {{norm.weight, -1, Access::read}, {norm.gradient, -1, Access::update}});
      }
      alternative.backward.push_back(
          task("head.grad", {3 * flops, 0, 4 * s_.rows}, std::move(backward), true));
    }
    return alternative;
  }

  void gather_touched(Unit& unit, SpanId gradient, bool first) {
    unit.gradient_end.push_back(task("head.gather_touched",
                                     {0, 1e4, 0},
                                     {{touched_, -1, Access::read},
                                      {gradient, -1, Access::read},
                                      {dense_rows_, -1, first ? Access::write : Access::update}},
                                     false));
  }

  void step_tasks() {
    if (!train()) {
      return;
    }
    const std::vector<Use> scalars{{step_, -1, Access::read}, {update_, -1, Access::write}};
    std::vector<Use> norm = scalars;
    norm.push_back({partials_, -1, Access::read});
    w_.turn = {task("prepare_update", {0, 64, 0}, scalars, false)};
    w_.finish = {task("global_norm", {0, 1e5, 0}, norm, false)};
  }

  TransformerSizes s_;
  Workload w_;
  SpanId tokens_;
  SpanId step_;
  SpanId touched_;
  SpanId loss_;
  SpanId partials_;
  SpanId update_;
  SpanId stream_;
  SpanId boundary_;  // written by the unit before
  SpanId sparse_;
  SpanId dense_rows_;
  std::vector<Trained> tables_;
  int programs_ = 0;
};

}  // namespace

Workload make_workload(const TransformerSizes& sizes) {
  return Generator(sizes).make();
}

TransformerSizes smollm2_135m(std::int32_t micro_batches, std::int64_t rows) {
  TransformerSizes s;
  s.layers = 30;
  s.width = 576;
  s.kv_width = 192;
  s.intermediate = 1536;
  s.heads = 9;
  s.vocabulary = 49152;
  s.rows = rows;
  s.micro_batches = micro_batches;
  return s;
}

TransformerSizes random_sizes(std::mt19937& random) {
  const auto below = [&](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
  TransformerSizes s;
  s.layers = static_cast<std::int32_t>(1 + below(3));
  s.width = 32 * (1 + below(6));
  s.kv_width = s.width / (1 + below(2));
  s.intermediate = 32 * (1 + below(12));
  s.vocabulary = 64 * (1 + below(40));
  s.block_elements = 1024 * (4 + below(40));
  s.rows = 64 * (1 + below(4));
  s.micro_batches = static_cast<std::int32_t>(1 + below(4));
  s.tied = below(2) == 0;
  s.clipping = below(2) == 0;
  s.staged_head = below(3) == 0;
  return s;
}

Hardware small_machine() {
  Hardware h;
  h.name = "small machine";
  h.devices = {{"cpu", 2, "avx2", 200e9, 12e9}};
  h.tiers = {{Tier::host, "host", 8 * gib, 8 * gib, ""},
             {Tier::nvme, "nvme", 64 * gib, 64 * gib, ""}};
  h.lanes = {{"nvme read", LaneKind::nvme_read, 1e-4, 450e6, 440e6, 0},
             {"nvme write", LaneKind::nvme_write, 1e-4, 400e6, 390e6, 0}};
  return h;
}

Hardware device_machine() {
  Hardware h = small_machine();
  h.name = "device machine";
  h.devices = {{"device", 1, "", 1e12, 100e9}};
  h.tiers.push_back({Tier::device, "device", 1 * gib, 1 * gib, ""});
  h.lanes.push_back({"h2d", LaneKind::h2d, 2e-5, 1e9, 1e9, -1});
  h.lanes.push_back({"d2h", LaneKind::d2h, 2e-5, 1e9, 1e9, -1});
  return h;
}

Hardware hetero_machine() {
  Hardware h = device_machine();
  h.name = "device and host machine";
  h.devices.push_back({"cpu", 1, "", 100e9, 12e9});
  return h;
}

}  // namespace parbuckle
