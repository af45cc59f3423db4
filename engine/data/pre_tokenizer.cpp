#include "engine/data/pre_tokenizer.h"

#include <optional>
#include <utility>

namespace parbuckle {

class PreTokenizer::Cursor::Stage {
 public:
  explicit Stage(const PreTokenizerStage& rules) : rules_(&rules) {
    if (!rules.split.empty()) {
      finder_.emplace(rules.split.front().pattern);
    }
  }

  void start(std::string_view text) {
    text_ = text;
    if (rules_->add_prefix_space && !text.starts_with(' ')) {
      prefixed_ = " ";
      prefixed_ += text;
      text_ = prefixed_;
    }
    position_ = 0;
    match_ = {};
    has_match_ = false;
    held_ = {};
    last_was_match_ = false;
    if (finder_) {
      finder_->start(text_);
    }
  }

  bool next(std::string_view& piece) {
    if (!finder_) {
      piece = std::exchange(text_, {});
      return !piece.empty();
    }
    Part part;
    while (next_part(part)) {
      if (take(part, piece)) {
        return true;
      }
    }
    piece = std::exchange(held_, {});
    return !piece.empty();
  }

  [[nodiscard]] Status status() const { return finder_ ? finder_->status() : Status(); }

 private:
  struct Part {
    std::string_view text;
    bool match = false;
  };

  /// The text as matches and what lies between them, in order, nothing empty.
  bool next_part(Part& part) {
    const bool invert = rules_->split.front().invert;
    while (!has_match_ && position_ < text_.size()) {
      if (!finder_->next(match_)) {
        match_ = {text_.size(), text_.size()};
      }
      has_match_ = match_.begin < match_.end || match_.begin > position_;
      if (!has_match_) {
        continue;  // an empty match cuts nothing off
      }
    }
    if (position_ == text_.size()) {
      return false;
    }
    if (position_ < match_.begin) {
      part = {text_.substr(position_, match_.begin - position_), invert};
      position_ = match_.begin;
      has_match_ = match_.begin < match_.end;
    } else {
      part = {text_.substr(position_, match_.end - position_), !invert};
      position_ = match_.end;
      has_match_ = false;
    }
    return true;
  }

  /// Joins `part` to what is held, or releases what is held as a piece.
  bool take(const Part& part, std::string_view& piece) {
    const bool previous = std::exchange(last_was_match_, part.match);
    switch (rules_->split.front().behavior) {
      case SplitBehavior::removed:
        piece = part.text;
        return !part.match;
      case SplitBehavior::isolated:
        piece = part.text;
        return true;
      case SplitBehavior::contiguous:
        return join_or_release(part.text, part.match == previous, piece);
      case SplitBehavior::merged_with_previous:
        return join_or_release(part.text, part.match && !previous, piece);
      case SplitBehavior::merged_with_next:
        return join_or_release(part.text, !part.match && previous, piece);
    }
    return false;
  }

  bool join_or_release(std::string_view text, bool join, std::string_view& piece) {
    if (held_.empty()) {
      held_ = text;
      return false;
    }
    if (join) {
      held_ = {held_.data(), held_.size() + text.size()};
      return false;
    }
    piece = std::exchange(held_, text);
    return true;
  }

  const PreTokenizerStage* rules_;
  std::optional<Pattern::Finder> finder_;
  std::string prefixed_;
  std::string_view text_;
  std::size_t position_ = 0;  // everything before it has been handed out
  Pattern::Match match_;
  bool has_match_ = false;
  std::string_view held_;
  bool last_was_match_ = false;
};

PreTokenizer::Cursor::Cursor(const PreTokenizer& rules) {
  for (const PreTokenizerStage& stage : rules.stages_) {
    stages_.push_back(std::make_unique<Stage>(stage));
  }
}

PreTokenizer::Cursor::~Cursor() = default;

void PreTokenizer::Cursor::start(std::string_view text) {
  whole_ = text;
  level_ = 0;
  if (!stages_.empty()) {
    stages_.front()->start(text);
  }
}

bool PreTokenizer::Cursor::next(std::string_view& word) {
  if (stages_.empty()) {
    word = std::exchange(whole_, {});
    return !word.empty();
  }
  while (true) {
    if (stages_[level_]->next(word)) {
      if (level_ + 1 == stages_.size()) {
        return true;
      }
      ++level_;
      stages_[level_]->start(word);
    } else if (level_ == 0) {
      return false;
    } else {
      --level_;
    }
  }
}

Status PreTokenizer::Cursor::status() const {
  for (const auto& stage : stages_) {
    PARBUCKLE_TRY(stage->status());
  }
  return {};
}

}  // namespace parbuckle
