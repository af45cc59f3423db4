#include "offload/storage/positioned_file.h"

namespace parbuckle {

Result<std::unique_ptr<BlockFile>> PositionedFile::open(const std::filesystem::path& path,
                                                        const PositionedFileOptions& options) {
  PARBUCKLE_ASSIGN(DriveFile opened, DriveFile::open(path, options.direct));
  std::unique_ptr<PositionedFile> file(
      new PositionedFile(std::move(opened)));  // private constructor
  const bool direct = file->file_.direct();
  IoTeamOptions team = options.team;
  team.drop_cache = !direct;
  if (!direct) {
    file->warning_ = file->path() +
                     ": the file system refuses O_DIRECT; buffered I/O is used and the page cache "
                     "dropped behind it (slower)";
  } else if (!options.instead_of.empty()) {
    file->warning_ = file->path() + ": " + options.instead_of + "; positioned I/O is used instead";
  }
  PARBUCKLE_ASSIGN(file->readers_, IoTeam::create(file->path(), team));
  PARBUCKLE_ASSIGN(file->writers_, IoTeam::create(file->path(), team));
  file->engine_ = std::string("positioned (") + (direct ? "O_DIRECT" : "buffered") + ", 2 x " +
                  std::to_string(team.threads) + " threads)";
  return std::unique_ptr<BlockFile>(std::move(file));
}

Status PositionedFile::read(std::int64_t offset, std::span<std::byte> to) {
  PARBUCKLE_TRY(file_.check(offset, to.data(), to.size()));
  return readers_->move({.descriptor = file_.descriptor(),
                         .direction = IoDirection::read,
                         .data = to.data(),
                         .offset = offset,
                         .bytes = static_cast<std::int64_t>(to.size())});
}

Status PositionedFile::write(std::int64_t offset, std::span<const std::byte> from) {
  PARBUCKLE_TRY(file_.check(offset, from.data(), from.size()));
  return writers_->move({.descriptor = file_.descriptor(),
                         .direction = IoDirection::write,
                         .data = const_cast<std::byte*>(from.data()),  // NOLINT: only read from
                         .offset = offset,
                         .bytes = static_cast<std::int64_t>(from.size())});
}

}  // namespace parbuckle
