#include "offload/storage/commit_record.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace parbuckle {
namespace {

class Writer {
 public:
  void number(std::int64_t value) { raw(&value, sizeof(value)); }
  void text(const std::string& value) {
    number(static_cast<std::int64_t>(value.size()));
    raw(value.data(), value.size());
  }
  void checksums(const std::vector<std::uint64_t>& values) {
    number(static_cast<std::int64_t>(values.size()));
    raw(values.data(), values.size() * sizeof(std::uint64_t));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void raw(const void* data, std::size_t size) {
    const auto* const from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
  }
  std::vector<std::byte> bytes_;
};

/// Every call after the end, or with a length that cannot be, marks the whole as bad and gives nothing.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}
  std::int64_t number() {
    std::int64_t value = 0;
    raw(&value, sizeof(value));
    return value;
  }
  /// A number of things that take at least `least` bytes each.
  std::size_t count(std::size_t least) {
    const std::int64_t value = number();
    const bool possible = value >= 0 && static_cast<std::uint64_t>(value) <=
                                            left_.size() / std::max<std::size_t>(least, 1);
    bad_ = bad_ || !possible;
    return bad_ ? 0 : static_cast<std::size_t>(value);
  }
  std::string text() {
    std::string value(count(1), '\0');
    raw(value.data(), value.size());
    return value;
  }
  std::vector<std::uint64_t> checksums() {
    std::vector<std::uint64_t> values(count(sizeof(std::uint64_t)));
    raw(values.data(), values.size() * sizeof(std::uint64_t));
    return values;
  }
  [[nodiscard]] bool ended_well() const { return !bad_ && left_.empty(); }

 private:
  void raw(void* to, std::size_t size) {
    if (bad_ || size > left_.size()) {
      bad_ = true;
      return;
    }
    if (size > 0) {
      std::memcpy(to, left_.data(), size);
    }
    left_ = left_.subspan(size);
  }
  std::span<const std::byte> left_;
  bool bad_ = false;
};

constexpr std::size_t block_size = 5 * sizeof(std::int64_t);    // without its name
constexpr std::size_t version_size = 4 * sizeof(std::int64_t);  // without run state and blocks
constexpr std::size_t block_version_size = 3 * sizeof(std::int64_t);  // without checksums

}  // namespace

std::vector<std::byte> encode(const CommitRecord& record) {
  Writer out;
  out.number(static_cast<std::int64_t>(record.blocks.size()));
  for (const StoredBlock& block : record.blocks) {
    out.text(block.name);
    out.number(block.bytes);
    out.number(block.offset);
    out.number(block.slots);
    out.number(block.starts_zero ? 1 : 0);
  }
  out.number(static_cast<std::int64_t>(record.versions.size()));
  for (const StoredVersion& version : record.versions) {
    out.number(version.step);
    out.number(version.checkpoint ? 1 : 0);
    out.text(version.run_state);
    out.number(static_cast<std::int64_t>(version.blocks.size()));
    for (const BlockVersion& block : version.blocks) {
      out.number(block.slot);
      out.number(block.written);
      out.checksums(block.checksums);
    }
  }
  return out.take();
}

Result<CommitRecord> decode(std::span<const std::byte> bytes) {
  Reader in(bytes);
  CommitRecord record;
  record.blocks.resize(in.count(block_size));
  for (StoredBlock& block : record.blocks) {
    block.name = in.text();
    block.bytes = in.number();
    block.offset = in.number();
    block.slots = static_cast<std::int32_t>(in.number());
    block.starts_zero = in.number() != 0;
  }
  record.versions.resize(in.count(version_size));
  for (StoredVersion& version : record.versions) {
    version.step = in.number();
    version.checkpoint = in.number() != 0;
    version.run_state = in.text();
    version.blocks.resize(in.count(block_version_size));
    for (BlockVersion& block : version.blocks) {
      block.slot = static_cast<std::int32_t>(in.number());
      block.written = in.number();
      block.checksums = in.checksums();
    }
    if (version.blocks.size() != record.blocks.size()) {
      return Status(Code::data_corrupt, "commit record: a version does not name every block");
    }
  }
  if (!in.ended_well()) {
    return Status(Code::data_corrupt, "commit record: its length is not that of its contents");
  }
  return record;
}

std::int64_t encoded_bytes(const std::vector<StoredBlock>& blocks,
                           std::int64_t versions,
                           std::int64_t run_state_bytes) {
  std::size_t names = 0;
  std::size_t map = 0;
  for (const StoredBlock& block : blocks) {
    names += block_size + block.name.size();
    const auto chunks = static_cast<std::size_t>((block.bytes + chunk_bytes - 1) / chunk_bytes);
    map += block_version_size + chunks * sizeof(std::uint64_t);
  }
  const auto fixed = static_cast<std::int64_t>(2 * sizeof(std::int64_t) + names);
  return fixed + versions * (static_cast<std::int64_t>(version_size + map) + run_state_bytes);
}

}  // namespace parbuckle
