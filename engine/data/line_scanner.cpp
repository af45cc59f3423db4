#include "engine/data/line_scanner.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

constexpr std::int64_t chunk_bytes = 256 * kib;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

Result<LineScanner> LineScanner::open(const std::string& path) {
  PARBUCKLE_ASSIGN(File file, File::open(path));
  LineScanner scanner(std::move(file));
  std::string head;
  PARBUCKLE_TRY(scanner.read(0, std::min<std::int64_t>(4, scanner.end()), head));
  if (head.starts_with("\xFF\xFE") || head.starts_with("\xFE\xFF")) {
    return invalid(path + ": the file is UTF-16 (it starts with " +
                   (head[0] == '\xFF' ? "FF FE" : "FE FF") + "); convert it to UTF-8");
  }
  scanner.first_ = head.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  scanner.chunk_begin_ = scanner.first_;
  return scanner;
}

Status LineScanner::read(std::int64_t begin, std::int64_t bytes, std::string& to) const {
  to.resize(static_cast<std::size_t>(bytes));
  PARBUCKLE_ASSIGN(const std::int64_t got, file_.read(begin, to));
  if (got != bytes) {
    return io_error("the data file became shorter while it was read");
  }
  return {};
}

Status LineScanner::fill() {
  file_.drop_cached(chunk_begin_, static_cast<std::int64_t>(chunk_.size()));
  chunk_begin_ += static_cast<std::int64_t>(chunk_.size());
  at_ = 0;
  return read(chunk_begin_, std::min(chunk_bytes, end() - chunk_begin_), chunk_);
}

Result<std::optional<LineScanner::Line>> LineScanner::next() {
  Line line{.number = number_ + 1, .begin = chunk_begin_ + static_cast<std::int64_t>(at_)};
  if (line.begin == end()) {
    return std::optional<Line>();
  }
  ++number_;
  while (true) {
    if (at_ == chunk_.size()) {
      if (chunk_begin_ + static_cast<std::int64_t>(at_) == end()) {
        return std::optional(line);
      }
      PARBUCKLE_TRY(fill());
    }
    const std::string_view rest = std::string_view(chunk_).substr(at_);
    const std::size_t feed = rest.find('\n');
    const std::string_view part = rest.substr(0, feed);
    line.blank = line.blank && is_blank(part);
    line.bytes += static_cast<std::int64_t>(part.size());
    at_ += part.size();
    if (feed != std::string_view::npos) {
      ++at_;
      return std::optional(line);
    }
  }
}

}  // namespace parbuckle
