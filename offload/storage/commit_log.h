// The commit protocol: where the records stand in the file, in which order they become durable, and which one counts.
//
//   page 0, page 1        record pages: sequence number, where the map is, its length and checksum; own checksum
//   map region 0, 1       encode(CommitRecord): too large for a page, so each record page points to one
//   extents               from bytes() on; the log does not know them
//
// Commit s uses page s % 2 and region s % 2, so it never touches those of commit s - 1:
//   1. sync        every extent that the version names is durable; they are slots that no durable version uses
//   2. map s, page s
//   3. sync        from here on version s is the committed one
//   4. both are read back and compared: a drive that loses or misplaces a write is found out before anyone relies on it
// The slots that version s - 1 used and s does not are free only when write() has returned. A crash before 3 leaves page s
// old, new or torn. Torn, or new with a map that did not arrive: a checksum fails, and page s - 1 counts, whose map and slots
// are untouched. New and whole: version s counts; all it names was durable at 1. So at every instant one whole version can be
// found, and the step that was in flight is lost at most. After an error nothing more is written: what a failed sync did is
// unknown, and either record is good.
//
// Steps whose updates are deferred to the next step (window lazy) are in flight until those updates have run. The trainer
// therefore commits, at the end of step n, the state that the file then really holds: that after step n - 1, with the counters
// and the data cursor of that moment. Resuming runs step n again: no gradient is ever stored for it.
#pragma once

#include <cstdint>
#include <string>

#include "parbuckle/status.h"

#include "offload/storage/block_file.h"
#include "offload/storage/commit_record.h"
#include "offload/storage/page_memory.h"

namespace parbuckle {

class CommitLog {
 public:
  /// Bytes at the beginning of the file for records of at most `map_bytes`.
  static std::int64_t bytes_for(std::int64_t map_bytes);

  /// An empty log in a file that holds nothing yet: preallocated, zeros.
  static Result<CommitLog> format(BlockFile& file, std::int64_t map_bytes);

  /// Finds the newest whole record. not_found: nothing was ever committed or formatted. data_corrupt: there were records, and
  /// neither is whole. unsupported: written by another version of parbuckle.
  static Result<CommitLog> recover(BlockFile& file);

  /// Makes `record` the committed one. After an error the log takes no more.
  Status write(BlockFile& file, CommitRecord record);

  [[nodiscard]] const CommitRecord& record() const { return record_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_for(map_capacity_); }
  [[nodiscard]] std::int64_t sequence() const { return sequence_; }
  /// Bytes of the last record on the drive.
  [[nodiscard]] std::int64_t record_bytes() const { return page_bytes + map_bytes_; }
  /// Where recover() met a torn or damaged record: says so.
  [[nodiscard]] const std::string& warning() const { return warning_; }

 private:
  struct Page;
  struct Pages;
  CommitLog() = default;
  static Result<Pages> read_pages(BlockFile& file);
  /// `fallen_back`: the file's path where a record is damaged.
  static CommitLog found_log(const Page& page, CommitRecord record, const std::string& fallen_back);
  Status write_pages(BlockFile& file, const CommitRecord& record);
  Status verify(BlockFile& file, std::int64_t offset, std::span<const std::byte> wanted);
  static Result<CommitRecord> read_map(BlockFile& file, const Page& page);
  [[nodiscard]] std::int64_t region_offset(std::int64_t sequence) const;

  CommitRecord record_;
  std::int64_t sequence_ = 0;
  std::int64_t map_capacity_ = 0;  // whole pages
  std::int64_t map_bytes_ = 0;     // of the last record, whole pages
  std::string warning_;
  Status failure_;
};

}  // namespace parbuckle
