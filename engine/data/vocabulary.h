// Token texts and their ids, both ways, in two flat arrays and a hash table: some 20 bytes a token besides its text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace parbuckle {

class Vocabulary {
 public:
  /// False, and nothing is changed, where the text or the id is taken already.
  bool add(std::string_view text, std::int32_t id);

  /// The id of a token, or -1.
  [[nodiscard]] std::int32_t find(std::string_view text) const;
  [[nodiscard]] bool has_id(std::int32_t id) const;
  /// The text of a token. REQUIRES: has_id(id).
  [[nodiscard]] std::string_view text(std::int32_t id) const;

  [[nodiscard]] std::size_t size() const { return size_; }
  /// -1 where there is no token.
  [[nodiscard]] std::int32_t highest_id() const;

 private:
  struct Entry {
    std::uint32_t begin = 0;
    std::uint32_t length = absent;
  };
  static constexpr std::uint32_t absent = ~0U;

  [[nodiscard]] std::size_t slot_of(std::string_view text) const;
  void grow();

  std::string texts_;
  std::vector<Entry> entries_;       // by id
  std::vector<std::int32_t> table_;  // open addressing, -1: empty
  std::size_t size_ = 0;
};

}  // namespace parbuckle
