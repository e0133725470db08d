// Regular expressions of ECMA-262, in its Unicode mode. In: a pattern. Out: a grammar, or an
// automaton over code points.
//
// Literals, `.`, classes, \d \w \s (ASCII, and Unicode's white space, as ECMA-262 says), \p{L} and
// other general categories, groups, `|`, * + ? {m} {m,} {m,n}, ^ and $. A lazy quantifier matches
// the same texts as a greedy one. Back references, look-around and \b describe no regular set or
// only by their surroundings: they are errors.
#pragma once

#include <string_view>
#include <vector>

#include "llm/grammar/regex/text_bytes.h"
#include "llm/grammar/regex/text_dfa.h"
#include "llm/grammar/rules/grammar.h"

namespace vesper {

enum class RegexNodeKind : uint8_t {
  kClass,     // one code point
  kSequence,  // all children
  kChoice,    // one of the children
  kRepeat,    // the child, `min` to `max` times
  kStart,     // ^
  kEnd,       // $
};

struct RegexNode {
  RegexNodeKind kind;
  CodePoints set;                   // kClass
  std::vector<RegexNode> children;  // kSequence and kChoice; kRepeat has one
  uint32_t min = 0, max = 0;        // kRepeat; max may be kNoLimit
};

// Throws Error(kUsage) that names the offset in bytes: wrong notation, something of the list above,
// more than 100 nested groups, invalid UTF-8.
RegexNode parse_regex(std::string_view pattern);

// Whether there are no anchors but ^ at the begin and $ at the end; both, if `both`.
bool has_outer_anchors_only(const RegexNode& regex, bool both);

// The texts in which the pattern occurs: at their begin and end only if it says so by anchors.
// Throws Error(kUsage) if the automaton has too many states.
TextDfa texts_with_match(const RegexNode& regex);
// The texts that match as a whole.
TextDfa texts_that_match(const RegexNode& regex);

// The same expression as nodes of a grammar, for texts that match it as a whole. Anchors at the
// ends are left out; the expression must have no others.
uint32_t add_regex(Grammar& grammar, const RegexNode& regex, TextSpelling spelling);

// Texts that match as a whole, with or without ^ and $ at the ends of the pattern. Throws
// Error(kUsage), "regex".
Grammar grammar_of_regex(std::string_view pattern);

}  // namespace vesper
