// A regular expression over Unicode text; the only caller of PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "error/error.h"

namespace vesper {

// Unicode classes (\p{L}, \d, \w). \s is Unicode's White_Space, as in the regular expressions of
// tokenizers (PCRE2's \s includes U+180E). \w includes marks. `^` and `$` match at every line, as
// in Oniguruma. Thread-safe.
class Pattern {
 public:
  // Throws Error(kind), beginning with `where`, if PCRE2 rejects the pattern.
  explicit Pattern(std::string_view pattern, const std::string& where = "pattern",
                   ErrorKind kind = ErrorKind::kModel);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  // Whether the pattern matches the whole text. Invalid UTF-8 never matches. Throws Error(kind) if
  // matching takes too many steps.
  bool matches_whole(std::string_view text) const;

 private:
  friend class PatternSearch;
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

// Iterates over the matches of a pattern in a text of valid UTF-8. Pattern and text must outlive
// this object.
class PatternSearch {
 public:
  struct Match {
    size_t begin = 0, end = 0;  // bytes
  };
  PatternSearch(const Pattern& pattern, std::string_view valid_text);
  ~PatternSearch();
  PatternSearch(const PatternSearch&) = delete;
  PatternSearch& operator=(const PatternSearch&) = delete;

  // The first non-empty match that begins at `from` or later. Throws like matches_whole().
  std::optional<Match> next(size_t from);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vesper
