#include "engine/data/vocabulary.h"

#include <functional>

#include "engine/base/check.h"

namespace parbuckle {

std::size_t Vocabulary::slot_of(std::string_view text) const {
  std::size_t slot = std::hash<std::string_view>{}(text) & (table_.size() - 1);
  while (table_[slot] >= 0 && this->text(table_[slot]) != text) {
    slot = (slot + 1) & (table_.size() - 1);
  }
  return slot;
}

void Vocabulary::grow() {
  table_.assign(table_.empty() ? 256 : table_.size() * 2, -1);
  for (std::size_t id = 0; id < entries_.size(); ++id) {
    if (entries_[id].length != absent) {
      const auto narrow = static_cast<std::int32_t>(id);
      table_[slot_of(text(narrow))] = narrow;
    }
  }
}

bool Vocabulary::add(std::string_view text, std::int32_t id) {
  PARBUCKLE_CHECK(id >= 0, "token ids are not negative");
  if (has_id(id) || find(text) >= 0) {
    return false;
  }
  if (2 * (size_ + 1) > table_.size()) {
    grow();
  }
  const auto index = static_cast<std::size_t>(id);
  if (index >= entries_.size()) {
    entries_.resize(index + 1);
  }
  const std::size_t slot = slot_of(text);
  entries_[index] = {static_cast<std::uint32_t>(texts_.size()),
                     static_cast<std::uint32_t>(text.size())};
  texts_ += text;
  table_[slot] = id;
  ++size_;
  return true;
}

std::int32_t Vocabulary::find(std::string_view text) const {
  return table_.empty() ? -1 : table_[slot_of(text)];
}

bool Vocabulary::has_id(std::int32_t id) const {
  return id >= 0 && static_cast<std::size_t>(id) < entries_.size() &&
         entries_[static_cast<std::size_t>(id)].length != absent;
}

std::string_view Vocabulary::text(std::int32_t id) const {
  const Entry& entry = entries_[static_cast<std::size_t>(id)];
  return std::string_view(texts_).substr(entry.begin, entry.length);
}

std::int32_t Vocabulary::highest_id() const {
  return static_cast<std::int32_t>(entries_.size()) - 1;
}

}  // namespace parbuckle
