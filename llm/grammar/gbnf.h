// llama.cpp's grammar notation. In: a text of rules. Out: a syntax tree whose root is the rule
// `root`.
//
//   root     ::= greeting " " name{1,3} "!"   # a comment
//   greeting ::= "Hello" | "Hi"               # alternatives
//   name     ::= [A-Z] [a-zäöü]* | .          # classes, ranges, any character
//
// Names are letters, digits, `-` and `_`. Strings and classes have the escapes \n \r \t \\ \" \[ \]
// \xHH \uHHHH \UHHHHHHHH, the last three for code points; classes also have \- and \^. A repetition
// is * + ? {m} {m,} or {m,n}. A rule ends with its line, except inside of parentheses and after a
// `|`; a line that begins with `|` continues it. An alternative may be empty. Tokens of a model,
// such as <think> or <[7]>, cannot be referred to.
#pragma once

#include <cstdint>
#include <string_view>

#include "llm/grammar/rules/grammar.h"

namespace vesper {

// Throws Error(kUsage) about the setting "grammar" that names line and column: wrong notation, a
// rule that is referred to and not defined or defined twice, no rule `root`, more than
// kMostGbnfGroups nested parentheses, counts above kMostGbnfRepetitions, invalid UTF-8. What the
// notation does not show (left recursion, a grammar that admits nothing) is found by
// CompiledGrammar, which names the rule and its line.
Grammar parse_gbnf(std::string_view text);

inline constexpr uint32_t kMostGbnfGroups = 100;
inline constexpr uint32_t kMostGbnfRepetitions = 1'000'000;

}  // namespace vesper
