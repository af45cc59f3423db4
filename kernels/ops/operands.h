// How a family of device operators is offered to the table, and views of operands.
#pragma once

#include <cstdint>
#include <simt/simt.h>

#include "engine/base/op.h"
#include "engine/base/operands.h"
#include "kernels/ops/context.h"

namespace parbuckle::cuda {

using simt::Global;
using simt::Shared;
using simt::Thread;

/// One row of the operator table.
struct OpEntry {
  OpKind kind;
  Result<std::int64_t> (*prepare)(const OpShape& op);
  Status (*run)(const Context& context, const OpShape& op, const OpArgs& args);
};

template <class T>
Global<const T> view_in(const Context& context, const OpArgs& args, std::size_t index) {
  return context.queue.view(in<T>(args, index), args.operands[index].shape.elements());
}
template <class T>
Global<T> view_out(const Context& context, const OpArgs& args, std::size_t index) {
  return context.queue.view(out<T>(args, index), args.operands[index].shape.elements());
}
/// Of an operand that is one T, whatever unit its shape counts in.
template <class T>
Global<const T> view_struct(const Context& context, const OpArgs& args, std::size_t index) {
  return context.queue.view(in<T>(args, index), 1);
}

/// A `touched` operand: its header, and the ids behind it.
struct TouchedView {
  Global<const TouchedRows> header;
  Global<const std::int32_t> ids;
};
inline TouchedView view_touched(const Context& context, const OpArgs& args, std::size_t index) {
  const OperandView& operand = args.operands[index];
  const auto* const header = in<TouchedRows>(args, index);
  const std::int64_t bytes = operand.shape.elements() * size_of(operand.dtype);
  return {context.queue.view(header, 1),
          context.queue.view(static_cast<const std::int32_t*>(static_cast<const void*>(header + 1)),
                             (bytes - static_cast<std::int64_t>(sizeof(TouchedRows))) /
                                 static_cast<std::int64_t>(sizeof(std::int32_t)))};
}

inline Global<std::int64_t> view_faults(const Context& context) {
  return context.queue.view(context.faults, data_faults);
}
SIMT_DEVICE void report_fault(const Thread& t,
                              const Global<std::int64_t>& faults,
                              DataFault kind,
                              std::int64_t code) {
  t.atomic_min(faults, static_cast<std::int64_t>(kind), code);
}

constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Calls f(thread, i) for i in [0, count), neighbouring threads for neighbouring i.
template <class F>
struct ForEach {
  static constexpr int threads = 256;
  F f;
  std::int64_t count;
  SIMT_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.index(); i < count; i += t.blocks() * threads) {
      f(t, i);
    }
  }
};

template <class F>
Status for_each(const Context& context, std::int64_t count, const F& f) {
  constexpr std::int64_t most_blocks = 1 << 16;
  const std::int64_t blocks = simt::smaller(ceil_divide(count, ForEach<F>::threads), most_blocks);
  return blocks == 0 ? Status() : simt::launch(context.queue, {.x = blocks}, ForEach<F>{f, count});
}

/// Calls f(thread, row) for each row with a whole warp.
template <class F>
struct ForEachRow {
  static constexpr int threads = 128;
  static constexpr std::int64_t rows_at_once = threads / simt::warp_size;
  F f;
  std::int64_t rows;
  SIMT_DEVICE void operator()(const Thread& t) const {
    const std::int64_t row = t.block() * rows_at_once + t.warp();
    if (row < rows) {
      f(t, row);
    }
  }
};

template <class F>
Status for_each_row(const Context& context, std::int64_t rows, const F& f) {
  const std::int64_t blocks = ceil_divide(rows, ForEachRow<F>::rows_at_once);
  return blocks == 0 ? Status()
                     : simt::launch(context.queue, {.x = blocks}, ForEachRow<F>{f, rows});
}

}  // namespace parbuckle::cuda
