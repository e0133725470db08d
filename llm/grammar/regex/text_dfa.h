// Deterministic automata over code points: sets of texts that are intersected, complemented and
// limited in length before they become rules of a grammar.
//
// In: a regular expression (regex.h), literal texts, a set of numbers (json_schema/number_text.h).
// Out: an automaton whose every state leads to a text that it accepts.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "llm/grammar/regex/code_points.h"

namespace vesper {

struct TextDfa {
  struct Edge {
    uint32_t first, last;  // code points, both included
    uint32_t to;
  };
  struct State {
    std::vector<Edge> edges;  // sorted and disjoint
    bool accepts = false;
  };
  std::vector<State> states;  // the first one is the start; none: no text at all

  bool is_empty() const { return states.empty(); }
  // `text` is valid UTF-8.
  bool accepts(std::string_view text) const;
};

// Larger automata are errors: Error(kUsage). A class of letters has 650 edges.
constexpr size_t kMaxDfaStates = 20'000, kMaxDfaEdges = 500'000;

constexpr uint32_t kNoLimit = UINT32_MAX;

// Lengths in code points.
struct LengthRange {
  uint32_t min = 0;
  uint32_t max = kNoLimit;
};

// Texts with this many of these code points.
TextDfa texts_of(const CodePoints& set, LengthRange length = {});
TextDfa literal_texts(const std::vector<std::string_view>& texts);

TextDfa intersection_of(const TextDfa& a, const TextDfa& b);
TextDfa union_of(const TextDfa& a, const TextDfa& b);
TextDfa complement_of(const TextDfa& dfa);
TextDfa with_length(const TextDfa& dfa, LengthRange length);

// The lengths of the shortest and the longest text. Not for an empty set.
LengthRange lengths_of(const TextDfa& dfa);
// Removes states that no text reaches, or that lead to no text.
TextDfa trimmed(const TextDfa& dfa);

}  // namespace vesper
