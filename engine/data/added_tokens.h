// Tokens that are found in the text itself, before it is cut into words: special tokens and words added by hand.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace parbuckle {

struct AddedToken {
  std::int32_t id = -1;
  std::string content;
  std::string
      form;  // what is searched for, and what its id decodes to: the content, normalised if `normalized`
  bool single_word = false;  // only where no word character stands beside it
  bool lstrip = false;       // takes the white space on its left
  bool rstrip = false;
  bool normalized = false;  // searched in the normalised text, in its own normalised form
  bool special = false;
  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

/// Finds a set of added tokens in a text: the leftmost match, the longest of those that start there.
class AddedTokenMatcher {
 public:
  /// Of two tokens with one form the first wins.
  void add(const AddedToken& token);
  [[nodiscard]] bool empty() const { return tokens_.empty(); }

  struct Piece {
    std::int32_t id = -1;  // -1: plain text
    std::string_view text;
  };
  /// Appends the pieces of `text`, in order, none empty.
  void split(std::string_view text, std::vector<Piece>& to) const;

 private:
  struct Found {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::int32_t token = -1;  // position in tokens_
  };
  [[nodiscard]] Found find(std::string_view text, std::size_t from) const;
  [[nodiscard]] Found longest_at(std::string_view text, std::size_t at) const;

  struct Node {
    std::int32_t token = -1;
  };
  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_{Node{}};
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // node * 256 + byte
  std::array<bool, 256> first_bytes_{};
};

}  // namespace parbuckle
