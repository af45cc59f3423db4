#include "kernels/ops/pointwise.h"

#include <array>

namespace parbuckle::cuda {
namespace {

struct Add {
  Global<const float> a, b;
  Global<float> y;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t i) const { y[i] = a[i] + b[i]; }
};

Result<std::int64_t> prepare_add(const OpShape& op) {
  PARBUCKLE_TRY(expect_alike(op, 3));
  return std::int64_t{0};
}

Status run_add(const Context& context, const OpShape& op, const OpArgs& args) {
  return for_each(context,
                  shape_of(op, 0).elements(),
                  Add{view_in<float>(context, args, 0),
                      view_in<float>(context, args, 1),
                      view_out<float>(context, args, 2)});
}

template <class T>
struct Copy {
  Global<const T> x;
  Global<T> y;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t i) const { y[i] = x[i]; }
};

template <class T>
struct Fill {
  Global<T> x;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t i) const { x[i] = T{0}; }
};

Result<std::int64_t> prepare_copy(const OpShape& op) {
  PARBUCKLE_TRY(expect_alike(op, 2));
  return std::int64_t{0};
}

/// Bytes of an operand; words of four bytes where it is made of them.
std::int64_t bytes_of(const OpArgs& args, std::size_t index) {
  return args.operands[index].shape.elements() * size_of(args.operands[index].dtype);
}
constexpr std::int64_t word = sizeof(std::uint32_t);

Status run_copy(const Context& context, const OpShape& /*op*/, const OpArgs& args) {
  const std::int64_t bytes = bytes_of(args, 0);
  const simt::Queue& queue = context.queue;
  if (bytes % word == 0) {
    return for_each(context,
                    bytes / word,
                    Copy<std::uint32_t>{queue.view(in<std::uint32_t>(args, 0), bytes / word),
                                        queue.view(out<std::uint32_t>(args, 1), bytes / word)});
  }
  return for_each(context,
                  bytes,
                  Copy<std::uint8_t>{queue.view(in<std::uint8_t>(args, 0), bytes),
                                     queue.view(out<std::uint8_t>(args, 1), bytes)});
}

Result<std::int64_t> prepare_fill(const OpShape& op) {
  PARBUCKLE_TRY(expect_elements(op, {any_size}));
  return std::int64_t{0};
}

Status run_fill(const Context& context, const OpShape& /*op*/, const OpArgs& args) {
  const std::int64_t bytes = bytes_of(args, 0);
  const simt::Queue& queue = context.queue;
  if (bytes % word == 0) {
    return for_each(context,
                    bytes / word,
                    Fill<std::uint32_t>{queue.view(out<std::uint32_t>(args, 0), bytes / word)});
  }
  return for_each(
      context, bytes, Fill<std::uint8_t>{queue.view(out<std::uint8_t>(args, 0), bytes)});
}

/// Element i of one of three parts of `width` columns lies at this place of the fused rows.
SIMT_DEVICE std::int64_t fused_index(std::int64_t i, std::int64_t part, std::int64_t width) {
  return (i / width * 3 + part) * width + i % width;
}

struct Split {
  Global<const float> x;
  Global<float> a, b, c;
  std::int64_t width;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t i) const {
    a[i] = x[fused_index(i, 0, width)];
    b[i] = x[fused_index(i, 1, width)];
    c[i] = x[fused_index(i, 2, width)];
  }
};

struct Merge {
  Global<const float> a, b, c;
  Global<float> x;
  std::int64_t width;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t i) const {
    x[fused_index(i, 0, width)] = a[i];
    x[fused_index(i, 1, width)] = b[i];
    x[fused_index(i, 2, width)] = c[i];
  }
};

Result<std::int64_t> prepare_split(const OpShape& op) {
  const std::int64_t n = shape_of(op, 1).elements();
  PARBUCKLE_TRY(expect_elements(op, {3 * n, n, n, n}));
  return std::int64_t{0};
}

Status run_split(const Context& context, const OpShape& op, const OpArgs& args) {
  return for_each(context,
                  shape_of(op, 1).elements(),
                  Split{view_in<float>(context, args, 0),
                        view_out<float>(context, args, 1),
                        view_out<float>(context, args, 2),
                        view_out<float>(context, args, 3),
                        columns_of(shape_of(op, 1))});
}

Result<std::int64_t> prepare_merge(const OpShape& op) {
  const std::int64_t n = shape_of(op, 0).elements();
  PARBUCKLE_TRY(expect_elements(op, {n, n, n, 3 * n}));
  return std::int64_t{0};
}

Status run_merge(const Context& context, const OpShape& op, const OpArgs& args) {
  return for_each(context,
                  shape_of(op, 0).elements(),
                  Merge{view_in<float>(context, args, 0),
                        view_in<float>(context, args, 1),
                        view_in<float>(context, args, 2),
                        view_out<float>(context, args, 3),
                        columns_of(shape_of(op, 0))});
}

constexpr std::array entries{OpEntry{OpKind::add, prepare_add, run_add},
                             OpEntry{OpKind::copy, prepare_copy, run_copy},
                             OpEntry{OpKind::fill_zero, prepare_fill, run_fill},
                             OpEntry{OpKind::split3, prepare_split, run_split},
                             OpEntry{OpKind::merge3, prepare_merge, run_merge}};

}  // namespace

std::span<const OpEntry> pointwise_ops() {
  return entries;
}

}  // namespace parbuckle::cuda
