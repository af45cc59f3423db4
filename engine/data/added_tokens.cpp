#include "engine/data/added_tokens.h"

#include <algorithm>

#include <utf8proc.h>

#include "engine/data/utf8.h"

namespace parbuckle {
namespace {

bool is_space(std::uint32_t c) {
  if ((c >= 0x09 && c <= 0x0D) || c == 0x85) {
    return true;
  }
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool is_circled_letter(std::uint32_t c) {
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

/// A word character as in the regular expression \w.
bool is_word(std::uint32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  const bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
  const bool mark = category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
  const bool number = category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL;
  const bool joiner = c == 0x200C || c == 0x200D;
  return letter || mark || number || joiner || category == UTF8PROC_CATEGORY_PC ||
         is_circled_letter(c);
}

/// Start of the character that ends at `end`. REQUIRES: end > 0, valid UTF-8.
std::size_t character_before(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) {
    --begin;
  }
  return begin;
}

std::size_t spaces_begin(std::string_view text, std::size_t end) {
  while (end > 0) {
    const std::size_t begin = character_before(text, end);
    if (!is_space(decode_utf8(text, begin).value)) {
      break;
    }
    end = begin;
  }
  return end;
}

std::size_t spaces_end(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    const CodePoint point = decode_utf8(text, begin);
    if (!is_space(point.value)) {
      break;
    }
    begin += point.bytes;
  }
  return begin;
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  const bool left = begin == 0 || !is_word(decode_utf8(text, character_before(text, begin)).value);
  const bool right = end == text.size() || !is_word(decode_utf8(text, end).value);
  return left && right;
}

}  // namespace

void AddedTokenMatcher::add(const AddedToken& token) {
  const std::string& form = token.form;
  if (form.empty()) {
    return;
  }
  std::uint32_t node = 0;
  for (const char c : form) {
    const std::uint64_t key = std::uint64_t{node} << 8U | static_cast<unsigned char>(c);
    const auto [edge, fresh] = edges_.try_emplace(key, static_cast<std::uint32_t>(nodes_.size()));
    if (fresh) {
      nodes_.emplace_back();
    }
    node = edge->second;
  }
  if (nodes_[node].token < 0) {
    nodes_[node].token = static_cast<std::int32_t>(tokens_.size());
    tokens_.push_back(token);
    first_bytes_[static_cast<unsigned char>(form.front())] = true;
  }
}

AddedTokenMatcher::Found AddedTokenMatcher::longest_at(std::string_view text,
                                                       std::size_t at) const {
  Found best{at, at, -1};
  std::uint32_t node = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    const auto edge = edges_.find(std::uint64_t{node} << 8U | static_cast<unsigned char>(text[i]));
    if (edge == edges_.end()) {
      break;
    }
    node = edge->second;
    if (nodes_[node].token >= 0) {
      best = {at, i + 1, nodes_[node].token};
    }
  }
  return best;
}

AddedTokenMatcher::Found AddedTokenMatcher::find(std::string_view text, std::size_t from) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (first_bytes_[static_cast<unsigned char>(text[at])]) {
      const Found found = longest_at(text, at);
      if (found.token >= 0) {
        return found;
      }
    }
  }
  return {text.size(), text.size(), -1};
}

void AddedTokenMatcher::split(std::string_view text, std::vector<Piece>& to) const {
  std::size_t done = 0;  // text before it has been handed out
  std::size_t from = 0;
  while (!tokens_.empty()) {
    const Found found = find(text, from);
    if (found.token < 0) {
      break;
    }
    from = found.end;  // a match that is turned down is not searched again
    const AddedToken& token = tokens_[static_cast<std::size_t>(found.token)];
    if (token.single_word && !stands_alone(text, found.begin, found.end)) {
      continue;
    }
    const std::size_t begin =
        token.lstrip ? std::max(spaces_begin(text, found.begin), done) : found.begin;
    const std::size_t end = token.rstrip ? spaces_end(text, found.end) : found.end;
    if (done < begin) {
      to.push_back({-1, text.substr(done, begin - done)});
    }
    to.push_back({token.id, text.substr(begin, end - begin)});
    done = end;
  }
  if (done < text.size()) {
    to.push_back({-1, text.substr(done)});
  }
}

}  // namespace parbuckle
