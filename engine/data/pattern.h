// Regular expressions of tokenizer files. They are written for the reference library's engine (Oniguruma, Ruby syntax);
// we run them with PCRE2. Where the two differ the pattern is rewritten, or refused: never run with another meaning.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "parbuckle/status.h"

namespace parbuckle {

/// The same expression for PCRE2 with UTF and UCP, or what in it has no equal.
Result<std::string> translate_pattern(std::string_view pattern);

class Pattern {
 public:
  /// Fails on what does not compile or translate; `place` names it in the message.
  static Result<Pattern> compile(std::string_view pattern, const std::string& place);
  /// A pattern that matches `text` itself.
  static Result<Pattern> literal(std::string_view text, const std::string& place);

  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  /// Goes through the matches in one text. One thread each.
  class Finder {
   public:
    explicit Finder(const Pattern& pattern);
    /// REQUIRES: `text` is valid UTF-8 and outlives the search.
    void start(std::string_view text);
    /// False at the end of the text, or when the engine gave up: see status().
    bool next(Match& match);
    [[nodiscard]] const Status& status() const { return status_; }

   private:
    struct Memory;
    struct Free {
      void operator()(Memory* memory) const;
    };
    int search(std::size_t from);

    const Pattern* pattern_;
    std::unique_ptr<Memory, Free> memory_;
    std::string_view text_;
    std::size_t position_ = 0;
    std::size_t last_end_ = std::string_view::npos;  // of the last match
    Status status_;
  };

 private:
  struct Compiled;
  explicit Pattern(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
  static Result<Pattern> compile_translated(const std::string& pattern, const std::string& place);

  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace parbuckle
