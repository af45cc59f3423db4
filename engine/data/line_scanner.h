// Finds the lines of a file of any size with a fixed amount of memory, and reads single ranges of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parbuckle/status.h"

#include "engine/data/file.h"

namespace parbuckle {

class LineScanner {
 public:
  struct Line {
    std::int64_t number = 0;  // from 1
    std::int64_t begin = 0;   // in the file
    std::int64_t bytes = 0;   // without the line feed
    bool blank = true;        // nothing but spaces, tabs and carriage returns
  };

  /// Skips a UTF-8 byte order mark; refuses UTF-16 by name. `name` is the file's in messages.
  static Result<LineScanner> open(const std::string& path);

  /// nullopt at the end of the file. What has been scanned is dropped from the page cache.
  Result<std::optional<Line>> next();
  /// The bytes of a range.
  Status read(std::int64_t begin, std::int64_t bytes, std::string& to) const;

  [[nodiscard]] bool has_byte_order_mark() const { return first_ > 0; }
  /// Where the text begins, and where it ends.
  [[nodiscard]] std::int64_t begin() const { return first_; }
  [[nodiscard]] std::int64_t end() const { return file_.size(); }

 private:
  explicit LineScanner(File file) : file_(std::move(file)) {}
  Status fill();

  File file_;
  std::int64_t first_ = 0;
  std::string chunk_;
  std::int64_t chunk_begin_ = 0;
  std::size_t at_ = 0;  // in the chunk
  std::int64_t number_ = 0;
};

}  // namespace parbuckle
