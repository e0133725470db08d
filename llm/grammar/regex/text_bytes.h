// Automata over code points as automata over the bytes of UTF-8, for a grammar.
#pragma once

#include "llm/grammar/regex/text_dfa.h"
#include "llm/grammar/rules/grammar.h"

namespace vesper {

enum class TextSpelling : uint8_t {
  kPlain,       // the text itself
  kJsonString,  // inside of a JSON string. Only what must be escaped is: a text has one spelling.
};

// How a JSON string spells the characters that it cannot contain: \" \\ \n, \u001f. Empty for
// others.
std::string json_escape(uint32_t code_point);

// The node of a set of code points.
uint32_t add_characters(Grammar& grammar, const CodePoints& set, TextSpelling spelling);
// The node of the texts that an automaton accepts.
uint32_t add_texts(Grammar& grammar, const TextDfa& dfa, TextSpelling spelling);

}  // namespace vesper
