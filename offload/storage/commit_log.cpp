#include "offload/storage/commit_log.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "offload/storage/checksum.h"

namespace parbuckle {
namespace {

constexpr std::int64_t magic = 0x4C4B43425241504CLL;
constexpr std::int64_t format_version = 1;
constexpr std::int64_t verify_bytes = 1 * mib;
constexpr int read_attempts = 3;  // a read that goes wrong once must not cost a commit

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

/// The fields of a record page, in their order; a checksum over them follows.
struct CommitLog::Page {
  std::int64_t mark = magic;
  std::int64_t format = format_version;
  std::int64_t sequence = 0;
  std::int64_t map_capacity = 0;
  std::int64_t map_offset = 0;
  std::int64_t map_bytes = 0;  // 0: nothing committed yet
  std::uint64_t map_checksum = 0;

  void put(std::span<std::byte> page) const {
    std::memcpy(page.data(), this, sizeof(Page));
    const std::uint64_t sum = checksum(page.first(sizeof(Page)));
    std::memcpy(page.data() + sizeof(Page), &sum, sizeof(sum));
  }
  static std::optional<Page> get(std::span<const std::byte> page) {
    Page read;
    std::uint64_t sum = 0;
    std::memcpy(&read, page.data(), sizeof(Page));
    std::memcpy(&sum, page.data() + sizeof(Page), sizeof(sum));
    const bool whole = read.mark == magic && sum == checksum(page.first(sizeof(Page)));
    return whole ? std::optional(read) : std::nullopt;
  }
};

struct CommitLog::Pages {
  std::array<std::optional<Page>, 2> found;
  std::array<bool, 2> damaged{};  // neither whole nor blank
};

std::int64_t CommitLog::bytes_for(std::int64_t map_bytes) {
  return 2 * page_bytes + 2 * round_up(map_bytes, page_bytes);
}

std::int64_t CommitLog::region_offset(std::int64_t sequence) const {
  return 2 * page_bytes + sequence % 2 * map_capacity_;
}

Result<CommitLog> CommitLog::format(BlockFile& file, std::int64_t map_bytes) {
  CommitLog log;
  log.map_capacity_ = round_up(map_bytes, page_bytes);
  PARBUCKLE_ASSIGN(const PageMemory pages, PageMemory::create(2 * page_bytes));
  Page{.map_capacity = log.map_capacity_}.put(pages.span().first(page_bytes));
  PARBUCKLE_TRY(file.write(0, pages.span()));
  PARBUCKLE_TRY(file.sync());
  return log;
}

Result<CommitRecord> CommitLog::read_map(BlockFile& file, const Page& page) {
  if (page.map_bytes == 0) {
    return CommitRecord{};
  }
  PARBUCKLE_ASSIGN(const PageMemory map, PageMemory::create(page.map_bytes));
  const auto bytes = map.span().first(static_cast<std::size_t>(page.map_bytes));
  for (int attempt = 0; attempt < read_attempts; ++attempt) {
    PARBUCKLE_TRY(file.read(page.map_offset, map.span()));
    if (checksum(bytes) == page.map_checksum) {
      return decode(bytes);
    }
  }
  return Status(
      Code::data_corrupt,
      "the map of commit " + std::to_string(page.sequence) + " does not match its checksum");
}

Result<CommitLog::Pages> CommitLog::read_pages(BlockFile& file) {
  PARBUCKLE_ASSIGN(const PageMemory memory, PageMemory::create(2 * page_bytes));
  Pages pages;
  for (int attempt = 0; attempt < read_attempts; ++attempt) {
    PARBUCKLE_TRY(file.read(0, memory.span()));
    for (std::size_t i = 0; i < pages.found.size(); ++i) {
      const auto page = memory.span().subspan(i * page_bytes, page_bytes);
      pages.found[i] = pages.found[i] ? pages.found[i] : Page::get(page);
      pages.damaged[i] = !pages.found[i] && !all_zero(page);
    }
    if (!pages.damaged[0] && !pages.damaged[1]) {
      break;
    }
  }
  return pages;
}

Result<CommitLog> CommitLog::recover(BlockFile& file) {
  PARBUCKLE_ASSIGN(Pages pages, read_pages(file));
  std::array<std::optional<Page>, 2>& found = pages.found;
  for (const std::optional<Page>& page : found) {
    if (page && page->format != format_version) {
      return unsupported(file.path() + ": commit records of format " +
                         std::to_string(page->format) + "; this version reads format " +
                         std::to_string(format_version));
    }
  }
  if (!found[0] && !found[1] && !pages.damaged[1]) {  // the first commit goes to page 1
    return Status(Code::not_found, file.path() + ": nothing was ever committed");
  }
  std::string faults = pages.damaged[0] || pages.damaged[1] ? "; a record page is damaged" : "";
  if (found[0] && found[1] && found[1]->sequence > found[0]->sequence) {
    std::swap(found[0], found[1]);
  }
  for (const std::optional<Page>& page : found) {
    if (!page) {
      continue;
    }
    Result<CommitRecord> record = read_map(file, *page);
    if (record.ok()) {
      return found_log(*page, std::move(record).value(), faults.empty() ? "" : file.path());
    }
    if (record.status().code() != Code::data_corrupt) {
      return record.status();
    }
    faults += "; " + record.status().message();
  }
  return Status(Code::data_corrupt,
                file.path() + ": both commit records are damaged" + faults +
                    "; the state of this run cannot be found again");
}

CommitLog CommitLog::found_log(const Page& page,
                               CommitRecord record,
                               const std::string& fallen_back) {
  CommitLog log;
  log.record_ = std::move(record);
  log.sequence_ = page.sequence;
  log.map_capacity_ = page.map_capacity;
  log.map_bytes_ = round_up(page.map_bytes, page_bytes);
  if (!fallen_back.empty()) {
    log.warning_ = fallen_back +
                   ": a commit record is torn, as a crash in a commit leaves it, or damaged; the "
                   "other one counts";
  }
  return log;
}

Status CommitLog::write(BlockFile& file, CommitRecord record) {
  PARBUCKLE_TRY(failure_);
  failure_ = write_pages(file, record);
  if (failure_.ok()) {
    record_ = std::move(record);
  }
  return failure_;
}

Status CommitLog::write_pages(BlockFile& file, const CommitRecord& record) {
  const std::vector<std::byte> bytes = encode(record);
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (size > map_capacity_) {
    return internal_error(file.path() + ": a commit record of " + format_size(size) +
                          " does not fit the " + format_size(map_capacity_) +
                          " that are kept for it");
  }
  const std::int64_t next = sequence_ + 1;
  PARBUCKLE_ASSIGN(const PageMemory map, PageMemory::create(size));
  std::memcpy(map.span().data(), bytes.data(), bytes.size());
  PARBUCKLE_ASSIGN(const PageMemory page, PageMemory::create(page_bytes));
  Page{.sequence = next,
       .map_capacity = map_capacity_,
       .map_offset = region_offset(next),
       .map_bytes = size,
       .map_checksum = checksum(bytes)}
      .put(page.span());
  PARBUCKLE_TRY(file.sync());
  PARBUCKLE_TRY(file.write(region_offset(next), map.span()));
  PARBUCKLE_TRY(file.write(next % 2 * page_bytes, page.span()));
  PARBUCKLE_TRY(file.sync());
  PARBUCKLE_TRY(verify(file, region_offset(next), map.span()));
  PARBUCKLE_TRY(verify(file, next % 2 * page_bytes, page.span()));
  sequence_ = next;
  map_bytes_ = round_up(size, page_bytes);
  return {};
}

Status CommitLog::verify(BlockFile& file, std::int64_t offset, std::span<const std::byte> wanted) {
  const auto piece = std::min(static_cast<std::size_t>(verify_bytes), wanted.size());
  PARBUCKLE_ASSIGN(const PageMemory back, PageMemory::create(static_cast<std::int64_t>(piece)));
  for (std::size_t at = 0; at < wanted.size(); at += piece) {
    const std::size_t size = std::min(piece, wanted.size() - at);
    PARBUCKLE_TRY(file.read(offset + static_cast<std::int64_t>(at), back.span().first(size)));
    if (std::memcmp(back.span().data(), wanted.data() + at, size) != 0) {
      return Status(Code::data_corrupt,
                    file.path() + ": a commit record did not read back from offset " +
                        std::to_string(offset) +
                        " as it was written: the drive is not to be trusted");
    }
  }
  return {};
}

}  // namespace parbuckle
