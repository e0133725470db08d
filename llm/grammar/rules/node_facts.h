// What the compiler must know of a syntax tree before it chooses between states, calls and
// counters.
#pragma once

#include <cstdint>
#include <vector>

#include "llm/grammar/rules/grammar.h"

namespace vesper {

struct NodeFacts {
  static constexpr uint32_t kInfinite = UINT32_MAX;
  uint32_t n_states = 0;   // about, a call of a rule counted as one
  uint32_t expanded = 0;   // about, with called rules and 1 per call; kInfinite if recursive
  uint32_t longest = 0;    // bytes of the longest text; kInfinite without a bound
  bool wide = false;       // has a class of more than 64 characters, called rules included
  bool wide_loop = false;  // has such a class in a repetition
};

// Facts of the nodes that the root reaches, by node; the others are zeros. Throws Error(kUsage) if
// a rule that the root reaches is not defined, or for nodes that are nested deeper than 500.
std::vector<NodeFacts> facts_of_nodes(const Grammar& grammar);

// Whether the states of a repetition's child are repeated in the automaton. Otherwise a counter on
// the stack counts them: 3 hexadecimal digits are states, 100 characters of a string are counted.
bool is_unrolled(const GrammarNode& repeat, const NodeFacts& child);

}  // namespace vesper
