#include "cpu/dnnl/matmul.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include <dnnl.hpp>

#include "parbuckle/units.h"

namespace parbuckle::cpu {
namespace {

// Upper end of what one fp32 matmul was measured to cost (70-165 KiB by shape and instruction set).
constexpr std::int64_t primitive_resident_bytes = 165 * kib;

std::string describe(const MatmulKey& key) {
  return "matmul " + std::to_string(key.m) + "x" + std::to_string(key.k) + " by " +
         std::to_string(key.k) + "x" + std::to_string(key.n);
}

Status failed(const MatmulKey& key, const char* what) {
  return internal_error("oneDNN: " + describe(key) + ": " + what);
}

dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, bool transposed) {
  return {{rows, columns},
          dnnl::memory::data_type::f32,
          transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1}};
}

dnnl::matmul::primitive_desc describe_primitive(const MatmulKey& key, const dnnl::engine& engine) {
  const auto a = matrix(key.m, key.k, key.a_transposed);
  const auto b = matrix(key.k, key.n, key.b_transposed);
  const auto c = matrix(key.m, key.n, false);
  const auto bias = matrix(1, key.n, false);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (key.accumulate) {
    dnnl::post_ops post;
    post.append_sum(1.0F);
    attributes.set_post_ops(post);
  }
#if DNNL_VERSION_MAJOR >= 3
  return key.bias ? dnnl::matmul::primitive_desc(engine, a, b, bias, c, attributes)
                  : dnnl::matmul::primitive_desc(engine, a, b, c, attributes);
#else
  const dnnl::matmul::desc operation =
      key.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  return {operation, attributes, engine};
#endif
}

/// A primitive with one memory object per operand, so that a run only exchanges pointers.
struct Entry {
  MatmulKey key;
  std::uint64_t last_use = 0;
  std::int64_t workspace_bytes = 0;
  dnnl::matmul primitive;
  dnnl::memory a;
  dnnl::memory b;
  dnnl::memory c;
  dnnl::memory bias;
  dnnl::memory scratchpad;
};

const char* isa_name(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:  // a foreign enum, which grows from release to release
      return nullptr;
  }
}

}  // namespace

struct MatmulCache::State {
  State(int limit, dnnl::engine on) : capacity(limit), engine(std::move(on)), stream(engine) {
    entries.reserve(static_cast<std::size_t>(limit));
  }

  std::size_t capacity_size() const { return static_cast<std::size_t>(capacity); }

  Entry* find(const MatmulKey& key) {
    const auto found = std::find_if(
        entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == key; });
    return found == entries.end() ? nullptr : &*found;
  }

  Entry* create(const MatmulKey& key);
  Result<Entry*> obtain(const MatmulKey& key);

  int capacity;
  std::uint64_t uses = 0;
  dnnl::engine engine;
  dnnl::stream stream;
  std::vector<Entry> entries;
};

Entry* MatmulCache::State::create(const MatmulKey& key) {
  if (entries.size() == capacity_size()) {
    entries.erase(
        std::min_element(entries.begin(), entries.end(), [](const Entry& x, const Entry& y) {
          return x.last_use < y.last_use;
        }));
  }
  const auto description = describe_primitive(key, engine);
  const auto wrap = [&](const dnnl::memory::desc& of) { return dnnl::memory(of, engine, nullptr); };
  Entry entry;
  entry.key = key;
  entry.workspace_bytes = static_cast<std::int64_t>(description.scratchpad_desc().get_size());
  entry.primitive = dnnl::matmul(description);
  entry.a = wrap(description.src_desc());
  entry.b = wrap(description.weights_desc());
  entry.c = wrap(description.dst_desc());
  if (key.bias) {
    entry.bias = wrap(description.bias_desc());
  }
  entry.scratchpad = wrap(description.scratchpad_desc());
  entries.push_back(std::move(entry));
  return &entries.back();
}

Result<Entry*> MatmulCache::State::obtain(const MatmulKey& key) {
  Entry* entry = find(key);
  if (entry == nullptr) {
    try {
      entry = create(key);
    } catch (const dnnl::error& error) {
      return failed(key, error.what());
    }
  }
  entry->last_use = ++uses;
  return entry;
}

MatmulCache::MatmulCache(std::unique_ptr<State> state) : state_(std::move(state)) {
}
MatmulCache::~MatmulCache() = default;

Result<std::unique_ptr<MatmulCache>> MatmulCache::create(int capacity) {
  try {
    dnnl::set_primitive_cache_capacity(0);
    auto state = std::make_unique<State>(capacity, dnnl::engine(dnnl::engine::kind::cpu, 0));
    return std::unique_ptr<MatmulCache>(new MatmulCache(std::move(state)));
  } catch (const dnnl::error& error) {
    return internal_error(std::string("oneDNN: no CPU engine: ") + error.what());
  }
}

Result<std::int64_t> MatmulCache::prepare(const MatmulKey& key) {
  PARBUCKLE_ASSIGN(const Entry* const entry, state_->obtain(key));
  return entry->workspace_bytes;
}

// The C calls take a plain array; their C++ wrappers build a map and a vector per run.
Status MatmulCache::run(const MatmulKey& key, const MatmulArgs& args) {
  PARBUCKLE_ASSIGN(Entry* const entry, state_->obtain(key));
  struct Operand {
    int role;
    dnnl::memory* memory;
    const void* data;
  };
  const std::array<Operand, 5> operands{{{DNNL_ARG_SRC, &entry->a, args.a},
                                         {DNNL_ARG_WEIGHTS, &entry->b, args.b},
                                         {DNNL_ARG_DST, &entry->c, args.c},
                                         {DNNL_ARG_SCRATCHPAD, &entry->scratchpad, args.workspace},
                                         {DNNL_ARG_BIAS, &entry->bias, args.bias}}};
  std::array<dnnl_exec_arg_t, 5> list{};
  const std::size_t count = key.bias ? 5 : 4;
  for (std::size_t i = 0; i < count; ++i) {
    dnnl_memory_t memory = operands[i].memory->get();
    // oneDNN takes every handle as writable; it writes c and the scratchpad only.
    if (dnnl_memory_set_data_handle(memory, const_cast<void*>(operands[i].data)) != dnnl_success) {
      return failed(key, "an operand was not accepted");
    }
    list[i] = {operands[i].role, memory};
  }
  const dnnl_status_t status = dnnl_primitive_execute(
      entry->primitive.get(), state_->stream.get(), static_cast<int>(count), list.data());
  if (status != dnnl_success) {
    return failed(key, "could not be executed");
  }
  return {};
}

int MatmulCache::size() const {
  return static_cast<int>(state_->entries.size());
}

std::int64_t MatmulCache::resident_bytes() const {
  return size() * primitive_resident_bytes;
}

std::string matmul_library() {
  const dnnl_version_t* const version = dnnl_version();
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  const char* const name = isa_name(isa);
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch) + ", " +
         (name != nullptr ? std::string(name) : "isa " + std::to_string(static_cast<int>(isa)));
}

}  // namespace parbuckle::cpu
