// CPU operators at the shapes of SmolLM2-135M (width 576, 9 heads over 3 of 64, MLP 1536, vocabulary 49,152) and of a Llama of
// 1B (width 2048, 32 heads over 8 of 64, MLP 8192, vocabulary 128,256 in parts of 2048 rows).
// Each line shows its FLOPs, the bytes of its operands (each once), its rate and the fraction of a ceiling measured in the same run: for arithmetic the best product of
// two square matrices, for bytes the best sum of two long vectors into
// one of them (what fits a cache exceeds it).
//   build/release/tests/cpu_ops_bench [--benchmark_filter=attention]
#include <algorithm>
#include <benchmark/benchmark.h>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "cpu/op_table.h"
#include "cpu/parallel/threads.h"
#include "tests/support/op_call.h"

namespace parbuckle {
namespace {

using testing::OpCall;
using testing::random_floats;

constexpr std::int64_t width = 576;
constexpr std::int64_t kv_width = 192;
constexpr std::int64_t mlp = 1536;
constexpr std::int64_t part = 7281;
constexpr std::int64_t vocabulary = 49'152;
constexpr std::int64_t llama_width = 2048;
constexpr std::int64_t llama_kv = 512;
constexpr std::int64_t llama_mlp = 8192;

struct Ceilings {
  double flops_per_s = 0;
  double bytes_per_s = 0;
};

/// A prepared call with the buffers it points into.
class Job {
 public:
  Job(OpKind kind, const Attributes& attributes) : call_(kind, attributes) {}

  /// Uniform in [-1, 1), on a cache line as everything in an arena is.
  Job& matrix(std::int64_t rows, std::int64_t columns) {
    const auto values = random_floats(matrices_.size() + 1, rows * columns);
    return raw(values, rows, columns);
  }
  Job& positive(std::int64_t rows, std::int64_t columns) {
    auto values = random_floats(matrices_.size() + 1, rows * columns);
    for (float& value : values) {
      value = std::abs(value);
    }
    return raw(values, rows, columns);
  }
  /// The last matrix once more, as the next operand.
  Job& again() {
    const Shape shape = call_.shape().operands.back();
    call_.with_raw(matrices_.back().data(), shape, DType::f32);
    return *this;
  }
  Job& ids(std::vector<std::int32_t> values) {
    ids_.push_back(std::move(values));
    call_.with(ids_.back());
    return *this;
  }
  Job& doubles(std::int64_t count) {
    doubles_.emplace_back(static_cast<std::size_t>(count));
    call_.with(doubles_.back());
    return *this;
  }
  Job& step() {
    call_.with_struct(step_);
    return *this;
  }
  Job& update() {
    call_.with_struct(update_);
    return *this;
  }

  /// Operands, each once.
  [[nodiscard]] double bytes() const {
    double sum = 0;
    for (const Shape& shape : call_.shape().operands) {
      sum += 4.0 * static_cast<double>(shape.elements());
    }
    return sum;
  }
  bool prepare(const OpTable& table) { return call_.prepare(table).ok(); }
  bool run(const OpTable& table) { return call_.run_prepared(table).ok(); }

 private:
  Job& raw(const std::vector<float>& values, std::int64_t rows, std::int64_t columns) {
    const std::size_t bytes = values.size() * sizeof(float);
    matrices_.emplace_back(static_cast<std::int64_t>(bytes));
    std::memcpy(matrices_.back().data(), values.data(), bytes);
    call_.with_raw(matrices_.back().data(), {rows, columns, 1}, DType::f32);
    return *this;
  }

  OpCall call_;
  std::deque<testing::AlignedBytes> matrices_;
  std::deque<std::vector<std::int32_t>> ids_;
  std::deque<std::vector<double>> doubles_;
  StepScalars step_{.loss_scale = 1e-3, .step = 1};
  UpdateScalars update_{.learning_rate = 1e-5F,
                        .beta1 = 0.9F,
                        .beta2 = 0.999F,
                        .epsilon = 1e-8F,
                        .correction1 = 0.1F,
                        .correction2_sqrt = 0.03F};
};

struct Bench {
  std::string name;
  double flops = 0;  // of one run; 0: measured in bytes
  double bytes = 0;  // moved by one run; 0: its operands, each once
  std::unique_ptr<Job> (*make)(std::int64_t rows);
  std::int64_t rows = 256;
};

std::unique_ptr<Job> job(OpKind kind, const Attributes& attributes = {}) {
  return std::make_unique<Job>(kind, attributes);
}

template <int heads>
Attributes attention() {
  Attributes a;
  a.heads = heads;
  a.kv_heads = heads == 9 ? 3 : 8;
  a.head_dim = 64;
  a.scale = 0.125F;
  return a;
}

std::unique_ptr<Job> linear(OpKind kind, std::int64_t rows, std::int64_t in, std::int64_t out) {
  auto j = job(kind);
  switch (kind) {
    case OpKind::linear_backward_input:
      j->matrix(rows, out).matrix(out, in).matrix(rows, in);
      break;
    case OpKind::linear_backward_weight:
      j->matrix(rows, in).matrix(rows, out).matrix(out, in);
      break;
    default:
      j->matrix(rows, in).matrix(out, in).matrix(rows, out);
      break;
  }
  return j;
}

template <OpKind kind, std::int64_t in, std::int64_t out>
Bench linear_bench() {
  constexpr std::int64_t rows = 256;
  return {.name = std::string(to_string(kind)) + " " + std::to_string(in) + " to " +
                  std::to_string(out),
          .flops = 2.0 * rows * in * out,
          .make = [](std::int64_t r) { return linear(kind, r, in, out); },
          .rows = rows};
}

template <int heads>
std::unique_ptr<Job> make_attention_forward(std::int64_t rows) {
  const Attributes a = attention<heads>();
  const std::int64_t q = heads * 64;
  const std::int64_t kv = a.kv_heads * std::int64_t{64};
  auto j = job(OpKind::attention_forward, a);
  j->matrix(rows, q).matrix(rows, kv).matrix(rows, kv);
  j->ids(std::vector<std::int32_t>(static_cast<std::size_t>(rows), 0));
  j->matrix(rows, q).matrix(rows, heads);
  return j;
}

template <int heads>
std::unique_ptr<Job> make_attention_backward(std::int64_t rows) {
  const Attributes a = attention<heads>();
  const std::int64_t q = heads * 64;
  const std::int64_t kv = a.kv_heads * std::int64_t{64};
  auto j = job(OpKind::attention_backward, a);
  j->matrix(rows, q).matrix(rows, kv).matrix(rows, kv);
  j->ids(std::vector<std::int32_t>(static_cast<std::size_t>(rows), 0));
  j->matrix(rows, q).positive(rows, heads).matrix(rows, q);
  j->matrix(rows, q).matrix(rows, kv).matrix(rows, kv);
  return j;
}

std::unique_ptr<Job> make_head(std::int64_t rows) {
  Attributes a;
  a.parts = 7;
  auto j = job(OpKind::head_loss, a);
  std::vector<std::int32_t> targets(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < targets.size(); ++i) {
    targets[i] = static_cast<std::int32_t>(i * 97 % vocabulary);
  }
  j->matrix(rows, width).ids(targets).step().doubles(2).matrix(rows, width);
  for (int twice = 0; twice < 2; ++twice) {
    for (std::int64_t first = 0; first < vocabulary; first += part) {
      j->matrix(std::min(part, vocabulary - first), width);
    }
  }
  return j;
}

std::unique_ptr<Job> make_adamw(std::int64_t rows) {
  Attributes a;
  a.decay = true;
  auto j = job(OpKind::adamw, a);
  j->matrix(rows, width).matrix(rows, width).positive(rows, width).matrix(rows, width).update();
  return j;
}

template <std::int64_t wide, std::int64_t narrow, std::int64_t keys>
void add_layer_products(std::vector<Bench>& all) {
  all.push_back(linear_bench<OpKind::linear_forward, narrow, narrow>());
  all.push_back(linear_bench<OpKind::linear_forward, narrow, keys>());
  all.push_back(linear_bench<OpKind::linear_forward, narrow, wide>());
  all.push_back(linear_bench<OpKind::linear_forward, wide, narrow>());
  all.push_back(linear_bench<OpKind::linear_backward_input, narrow, narrow>());
  all.push_back(linear_bench<OpKind::linear_backward_input, narrow, wide>());
  all.push_back(linear_bench<OpKind::linear_backward_input, wide, narrow>());
  all.push_back(linear_bench<OpKind::linear_backward_weight, narrow, narrow>());
  all.push_back(linear_bench<OpKind::linear_backward_weight, narrow, wide>());
  all.push_back(linear_bench<OpKind::linear_backward_weight, wide, narrow>());
}

template <int heads>
void add_attention(std::vector<Bench>& all) {
  for (const std::int64_t rows : {256, 512, 1024, 2048}) {
    const auto n = static_cast<double>(rows);
    const double pairs = n * (n + 1) / 2 * heads * 64;  // causal, all heads
    const std::string shape = std::to_string(heads) + " heads " + std::to_string(rows);
    all.push_back({.name = "attention_forward " + shape,
                   .flops = 2 * 2 * pairs,
                   .make = make_attention_forward<heads>,
                   .rows = rows});
    all.push_back({.name = "attention_backward " + shape,
                   .flops = 5 * 2 * pairs,
                   .make = make_attention_backward<heads>,
                   .rows = rows});
  }
}

template <std::int64_t mlp_width>
void add_gated(std::vector<Bench>& all) {
  const std::string shape = " " + std::to_string(mlp_width);
  all.push_back({.name = "gated_forward" + shape, .make = [](std::int64_t rows) {
                   auto j = job(OpKind::gated_forward);
                   j->matrix(rows, mlp_width).matrix(rows, mlp_width).matrix(rows, mlp_width);
                   return j;
                 }});
  all.push_back({.name = "gated_backward" + shape, .make = [](std::int64_t rows) {
                   auto j = job(OpKind::gated_backward);
                   j->matrix(rows, mlp_width).matrix(rows, mlp_width).matrix(rows, mlp_width);
                   j->matrix(rows, mlp_width).matrix(rows, mlp_width);
                   return j;
                 }});
}

template <std::int64_t columns>
void add_norms(std::vector<Bench>& all) {
  const std::string shape = " " + std::to_string(columns);
  all.push_back({.name = "rms_norm_forward" + shape, .make = [](std::int64_t rows) {
                   auto j = job(OpKind::rms_norm_forward);
                   j->matrix(rows, columns).matrix(columns, 1).matrix(rows, columns);
                   j->matrix(rows, 1);
                   return j;
                 }});
  all.push_back({.name = "rms_norm_backward" + shape, .make = [](std::int64_t rows) {
                   auto j = job(OpKind::rms_norm_backward);
                   j->matrix(rows, columns).matrix(columns, 1).matrix(rows, 1);
                   j->matrix(rows, columns).matrix(rows, columns).matrix(columns, 1);
                   return j;
                 }});
}

template <std::int64_t columns>
void add_passes(std::vector<Bench>& all) {
  const std::string shape = " " + std::to_string(columns);
  all.push_back({.name = "rope_forward" + shape, .make = [](std::int64_t rows) {
                   Attributes a;
                   a.heads = columns / 64;
                   a.head_dim = 64;
                   auto j = job(OpKind::rope_forward, a);
                   j->matrix(rows, columns).matrix(rows, 64);
                   return j;
                 }});
  all.push_back({.name = "add" + shape, .make = [](std::int64_t rows) {
                   auto j = job(OpKind::add);
                   j->matrix(rows, columns).matrix(rows, columns).again();
                   return j;
                 }});
  all.push_back({.name = "embedding_backward" + shape, .make = [](std::int64_t rows) {
                   auto j = job(OpKind::embedding_backward);
                   std::vector<std::int32_t> slots(static_cast<std::size_t>(rows));
                   for (std::size_t i = 0; i < slots.size(); ++i) {
                     slots[i] = static_cast<std::int32_t>(i * 97 % slots.size());
                   }
                   j->ids(slots).matrix(rows, columns).matrix(rows, columns);
                   return j;
                 }});
}

std::vector<Bench> benches() {
  std::vector<Bench> all;
  add_layer_products<mlp, width, kv_width>(all);
  all.push_back(linear_bench<OpKind::linear_forward, width, part>());
  all.push_back(linear_bench<OpKind::linear_backward_input, width, part>());
  all.push_back(linear_bench<OpKind::linear_backward_weight, width, part>());
  add_layer_products<llama_mlp, llama_width, llama_kv>(all);
  add_attention<9>(all);
  add_attention<32>(all);
  all.push_back(
      {.name = "head_loss 49152", .flops = 3 * 2.0 * 256 * width * vocabulary, .make = make_head});
  add_gated<mlp>(all);
  add_gated<llama_mlp>(all);
  add_norms<width>(all);
  add_norms<llama_width>(all);
  add_passes<width>(all);
  add_passes<llama_width>(all);
  all.push_back({.name = "adamw 28M",
                 .bytes = 28.0 * vocabulary * width,
                 .make = make_adamw,
                 .rows = vocabulary});
  all.push_back({.name = "square_sum 28M",
                 .make =
                     [](std::int64_t rows) {
                       auto j = job(OpKind::square_sum);
                       j->matrix(rows, width).doubles((rows * width + 65'535) / 65'536);
                       return j;
                     },
                 .rows = vocabulary});
  return all;
}

double best_seconds(Job& work, const OpTable& table, int times) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work.run(table);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return best;
}

Ceilings measure(const OpTable& table) {
  constexpr std::int64_t side = 1024;
  auto square = linear(OpKind::linear_forward, side, side, side);
  constexpr std::int64_t count = std::int64_t{1} << 25;
  auto sum = job(OpKind::add);
  sum->matrix(count, 1).matrix(count, 1).again();
  if (!square->prepare(table) || !sum->prepare(table)) {
    return {};
  }
  return {.flops_per_s = 2.0 * side * side * side / best_seconds(*square, table, 20),
          .bytes_per_s = 12.0 * static_cast<double>(count) / best_seconds(*sum, table, 20)};
}

void run(benchmark::State& state, const Bench& bench, const OpTable& table, const Ceilings& top) {
  const auto work = bench.make(bench.rows);
  if (!work->prepare(table)) {
    state.SkipWithError("prepare failed");
    return;
  }
  double best = 1e9;
  for (auto _ : state) {
    best = std::min(best, best_seconds(*work, table, 1));
  }
  const bool arithmetic = bench.flops > 0;
  const double bytes = bench.bytes > 0 ? bench.bytes : work->bytes();
  const double rate = (arithmetic ? bench.flops : bytes) / best;
  state.counters["seconds"] = best;
  state.counters["MB"] = bytes * 1e-6;
  state.counters[arithmetic ? "GFLOP/s" : "GB/s"] = rate * 1e-9;
  state.counters["of_ceiling"] = rate / (arithmetic ? top.flops_per_s : top.bytes_per_s);
}

}  // namespace
}  // namespace parbuckle

int main(int argc, char** argv) {
  namespace cpu = parbuckle::cpu;
  benchmark::Initialize(&argc, argv);
  auto context = cpu::Context::create(cpu::thread_count(cpu::thread_limits()));
  if (!context.ok()) {
    std::fprintf(stderr, "%s\n", context.status().message().c_str());
    return 1;
  }
  const parbuckle::OpTable table = cpu::cpu_op_table(**context);
  const parbuckle::Ceilings top = parbuckle::measure(table);
  std::printf("%s, inner loops %s\nceilings: %.0f GFLOP/s, %.1f GB/s\n",
              (*context)->signature().c_str(),
              (*context)->kernels().name,
              top.flops_per_s * 1e-9,
              top.bytes_per_s * 1e-9);
  for (const parbuckle::Bench& bench : parbuckle::benches()) {
    benchmark::RegisterBenchmark(bench.name.c_str(),
                                 [&table, &top, bench](benchmark::State& state) {
                                   parbuckle::run(state, bench, table, top);
                                 })
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.2)
        ->UseRealTime();
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
