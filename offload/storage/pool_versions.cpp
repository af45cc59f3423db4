// The part of the pool that survives: formatting, recovering and committing versions.
#include <algorithm>
#include <limits>
#include <utility>

#include "parbuckle/units.h"

#include "offload/storage/pool.h"

namespace parbuckle {
namespace {

std::int64_t slots_bytes(const std::vector<StoredBlock>& blocks) {
  std::int64_t sum = 0;
  for (const StoredBlock& block : blocks) {
    sum += block.bytes * block.slots;
  }
  return sum;
}

std::int64_t map_bytes(const StoreLayout& layout) {
  const std::int64_t versions = 1 + layout.checkpoints;
  return encoded_bytes(layout.blocks, versions, layout.run_state_bytes);
}

}  // namespace

std::int64_t store_bytes(const StoreLayout& layout) {
  return CommitLog::bytes_for(map_bytes(layout)) + slots_bytes(layout.blocks) + layout.spill_bytes;
}

Result<std::unique_ptr<Pool>> Pool::format(std::unique_ptr<BlockFile> file,
                                           const StoreLayout& layout) {
  auto pool = over(std::move(file), store_bytes(layout));
  PARBUCKLE_TRY(pool->file_->preallocate(pool->bytes_));
  PARBUCKLE_ASSIGN(CommitLog log, CommitLog::format(*pool->file_, map_bytes(layout)));
  pool->used_ = log.bytes();
  pool->log_.emplace(std::move(log));
  pool->checkpoints_ = layout.checkpoints;
  for (StoredBlock block : layout.blocks) {
    block.offset = pool->used_;
    pool->add({.name = block.name,
               .offset = block.offset,
               .bytes = block.bytes,
               .slots = block.slots,
               .starts_zero = block.starts_zero});
    pool->blocks_.push_back(std::move(block));
  }
  return pool;
}

Result<std::unique_ptr<Pool>> Pool::recover(std::unique_ptr<BlockFile> file,
                                            std::int64_t spill_bytes,
                                            std::int64_t step) {
  auto pool = over(std::move(file), 0);
  PARBUCKLE_ASSIGN(CommitLog log, CommitLog::recover(*pool->file_));
  const std::string path = pool->file_->path();
  pool->blocks_ = log.record().blocks;
  pool->versions_ = log.record().versions;
  pool->used_ = log.bytes();
  pool->log_.emplace(std::move(log));
  if (pool->versions_.empty()) {
    return Status(Code::not_found, path + ": nothing was committed yet");
  }
  while (step >= 0 && !pool->versions_.empty() && pool->versions_.front().step != step) {
    pool->versions_.erase(pool->versions_.begin());
  }
  if (pool->versions_.empty()) {
    return invalid(path + ": no version of step " + std::to_string(step) + " is kept");
  }
  for (std::size_t b = 0; b < pool->blocks_.size(); ++b) {
    const StoredBlock& block = pool->blocks_[b];
    const ExtentId id = pool->add({.name = block.name,
                                   .offset = block.offset,
                                   .bytes = block.bytes,
                                   .slots = block.slots,
                                   .starts_zero = block.starts_zero});
    pool->adopt(pool->extents_[id.index()], pool->versions_.front().blocks[b]);
  }
  pool->mark_taken();
  pool->keep_checkpoints(std::numeric_limits<std::int64_t>::max());
  pool->bytes_ = pool->used_ + spill_bytes;
  PARBUCKLE_TRY(pool->file_->preallocate(pool->bytes_));
  if (step >= 0) {  // slots of newer versions are free now: no record may name them any more
    const StoredVersion chosen = pool->versions_.front();
    PARBUCKLE_TRY(pool->commit(chosen.step, chosen.run_state, chosen.checkpoint));
  }
  return pool;
}

void Pool::adopt(Extent& extent, const BlockVersion& version) const {
  if (version.slot < 0) {
    return;  // as a new extent that starts as zeros
  }
  extent.working = version.slot;
  extent.written = version.written;
  for (std::size_t c = 0; c < version.checksums.size(); ++c) {
    const std::int64_t begin = static_cast<std::int64_t>(c) * chunk_bytes;
    extent.chunks[c] = {.checksum = version.checksums[c],
                        .covered = std::min(chunk_bytes, version.written - begin)};
  }
}

Result<BlockVersion> Pool::version_of(const Extent& extent) const {
  if (extent.written == 0 && extent.zero_tail) {
    return BlockVersion{};
  }
  if (extent.written < extent.bytes && !extent.zero_tail) {
    return internal_error("pool: block '" + extent.name + "' is to be committed with " +
                          std::to_string(extent.written) + " of " + std::to_string(extent.bytes) +
                          " bytes");
  }
  BlockVersion version{.slot = extent.working, .written = extent.written, .checksums = {}};
  for (std::int64_t at = 0; at < extent.written; at += chunk_bytes) {
    version.checksums.push_back(extent.chunks[static_cast<std::size_t>(at / chunk_bytes)].checksum);
  }
  return version;
}

Status Pool::commit(std::int64_t step, std::string run_state, bool checkpoint) {
  if (!log_) {
    return internal_error("pool: a commit where nothing is stored");
  }
  CommitRecord record{.blocks = blocks_, .versions = {}};
  record.versions.push_back(
      {.step = step, .checkpoint = checkpoint, .run_state = std::move(run_state), .blocks = {}});
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    PARBUCKLE_ASSIGN(BlockVersion version, version_of(extents_[b]));
    record.versions.front().blocks.push_back(std::move(version));
  }
  for (const StoredVersion& older : versions_) {
    const auto kept = static_cast<std::int64_t>(record.versions.size()) - 1;
    if (older.checkpoint && older.step < step && kept < checkpoints_) {
      record.versions.push_back(older);
    }
  }
  PARBUCKLE_TRY(log_->write(*file_, record));
  versions_ = std::move(record.versions);
  mark_taken();
  return {};
}

/// A slot is taken where a version names it; a block that every version has as zeros has none.
void Pool::mark_taken() {
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    extents_[b].taken = 0;
    for (const StoredVersion& version : versions_) {
      const std::int32_t slot = version.blocks[b].slot;
      extents_[b].taken |= slot < 0 ? 0 : std::uint64_t{1} << static_cast<unsigned>(slot);
    }
  }
}

bool Pool::changed(ExtentId id) const {
  const Extent& extent = extents_[id.index()];
  if (id.index() >= blocks_.size() || versions_.empty()) {
    return true;
  }
  const std::int32_t slot = versions_.front().blocks[id.index()].slot;
  return slot < 0 ? extent.written > 0 || !extent.zero_tail : slot != extent.working;
}

void Pool::keep_checkpoints(std::int64_t count) {
  std::int32_t slots = std::numeric_limits<std::int32_t>::max();
  for (const StoredBlock& block : blocks_) {
    slots = block.slots > 1 ? std::min(slots, block.slots) : slots;
  }
  checkpoints_ = std::clamp<std::int64_t>(count, 0, std::max(0, slots - 2));
}

}  // namespace parbuckle
