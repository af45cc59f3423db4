// The parts of reference_table: one function per op kind, in groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/op.h"

namespace parbuckle::reference {

struct Call {
  const OpArgs& args;
  const Attributes& a;

  [[nodiscard]] const OperandView& view(std::size_t i) const { return args.operands[i]; }
  [[nodiscard]] std::size_t count() const { return args.operands.size(); }
  template <class T>
  [[nodiscard]] T* as(std::size_t i) const {
    return static_cast<T*>(view(i).data);
  }
  [[nodiscard]] float* f32(std::size_t i) const { return as<float>(i); }
  [[nodiscard]] std::int32_t* i32(std::size_t i) const { return as<std::int32_t>(i); }
  [[nodiscard]] double* f64(std::size_t i) const { return as<double>(i); }
  [[nodiscard]] std::int64_t rows(std::size_t i) const { return view(i).shape.d0; }
  [[nodiscard]] std::int64_t columns(std::size_t i) const { return view(i).shape.d1; }
  [[nodiscard]] std::int64_t elements(std::size_t i) const { return view(i).shape.elements(); }
};

struct Entry {
  OpKind kind;
  void (*run)(const Call& call);
};

std::span<const Entry> layer_ops();
std::span<const Entry> attention_ops();
std::span<const Entry> table_ops();
std::span<const Entry> head_ops();
std::span<const Entry> update_ops();

}  // namespace parbuckle::reference
