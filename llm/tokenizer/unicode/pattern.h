// A regular expression over Unicode text: the one place where PCRE2 is called.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "error/error.h"

namespace vesper {

// Unicode's classes (\p{L}, \d, \w) throughout. \s is Unicode's White_Space, as in the regular
// expressions that tokenizers are trained with (PCRE2's own has U+180E too), \w has marks as well,
// and `^` and `$` match at every line, as in Oniguruma. Safe to use from several threads at once.
class Pattern {
 public:
  // Throws Error(kind), beginning with `where`, if it is no pattern of PCRE2.
  explicit Pattern(std::string_view pattern, const std::string& where = "pattern",
                   ErrorKind kind = ErrorKind::kModel);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  // Whether it matches these bytes from the first to the last. What is no UTF-8 matches nothing.
  // Throws Error(kind) if matching takes more steps than are allowed.
  bool matches_whole(std::string_view text) const;

 private:
  friend class PatternSearch;
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

// Goes through the matches of a pattern in one text, which must be UTF-8 and outlive it, as the
// pattern must.
class PatternSearch {
 public:
  struct Match {
    size_t begin = 0, end = 0;  // bytes
  };
  PatternSearch(const Pattern& pattern, std::string_view valid_text);
  ~PatternSearch();
  PatternSearch(const PatternSearch&) = delete;
  PatternSearch& operator=(const PatternSearch&) = delete;

  // The first match that begins at `from` or later and is not empty. Throws as matches_whole().
  std::optional<Match> next(size_t from);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vesper
