#include "engine/graph/storage.h"

#include <algorithm>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

Block block_of(std::string name, SpanId span, const Storage& storage) {
  return {.name = std::move(name),
          .role = storage.role,
          .dtype = storage.dtype,
          .persistent = storage.persistent,
          .starts_zero = storage.starts_zero,
          .pinned = storage.pinned,
          .span = span};
}

}  // namespace

SpanId add_span_of(Workload& workload,
                   const std::string& name,
                   const std::vector<std::pair<std::string, std::int64_t>>& blocks,
                   Storage storage) {
  const SpanId id(workload.spans.size());
  Span span = {.name = name};
  for (const auto& [block_name, bytes] : blocks) {
    Block block = block_of(block_name, id, storage);
    block.bytes = round_up(bytes, page_bytes);
    block.span_offset = span.bytes;
    span.bytes += block.bytes;
    span.blocks.emplace_back(workload.blocks.size());
    workload.blocks.push_back(std::move(block));
  }
  workload.spans.push_back(std::move(span));
  return id;
}

SpanId add_span(Workload& workload,
                const std::string& name,
                std::int64_t bytes,
                std::int64_t block_bytes,
                Storage storage) {
  std::vector<std::pair<std::string, std::int64_t>> blocks;
  for (std::int64_t begin = 0; begin < bytes; begin += block_bytes) {
    const std::string suffix = bytes > block_bytes ? ".b" + std::to_string(blocks.size()) : "";
    blocks.emplace_back(name + suffix, std::min(block_bytes, bytes - begin));
  }
  return add_span_of(workload, name, blocks, storage);
}

SpanId add_token_span(Workload& workload,
                      const std::string& name,
                      std::int64_t row_bytes,
                      std::int64_t fixed_bytes,
                      Storage storage) {
  const SpanId id(workload.spans.size());
  Block block = block_of(name, id, storage);
  block.bytes = fixed_bytes;
  block.row_bytes = row_bytes;
  block.per_micro_batch = true;
  workload.spans.push_back({.name = name,
                            .blocks = {BlockId(workload.blocks.size())},
                            .bytes = parbuckle::block_bytes(block, workload.shapes.back()),
                            .per_micro_batch = true});
  workload.blocks.push_back(std::move(block));
  return id;
}

}  // namespace parbuckle
