// llama.cpp's grammar notation. In: a text of rules. Out: a syntax tree whose root is the rule
// `root`.
//
//   root   ::= greeting " " name{1,3} "!"   # comment
//   greeting ::= "Hello" | "Hi"             # alternatives
//   name   ::= [A-Z] [a-zäöü]* | .          # classes, ranges, any character
//
// Strings and classes have the escapes \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH. A repetition is
// * + ? {m} {m,} or {m,n}. A rule ends with its line, except inside of parentheses and after a
// `|`; a line that begins with `|` continues it.
#pragma once

#include <string_view>

#include "llm/grammar/grammar.h"

namespace vesper {

// Throws Error(kUsage) that names line and column: wrong notation, a rule that is referred to and
// not defined or defined twice, no rule `root`, more than 250 nested parentheses, invalid UTF-8.
// What the notation does not show (left recursion, a grammar that admits nothing) is found by
// CompiledGrammar, which names the rule's line too.
Grammar parse_gbnf(std::string_view text);

}  // namespace vesper
