// One rule's states while a grammar is compiled. Called by the grammar compiler.
#pragma once

#include <cstdint>
#include <vector>

#include "llm/grammar/automaton/automaton.h"

namespace vesper {

// Nondeterministic, with edges that take no byte. State 0 is the start, state 1 the end.
struct RuleNfa {
  struct State {
    std::vector<uint32_t> empty;  // targets of edges without a byte
    std::vector<GrammarAutomaton::ByteEdge> edges;
    std::vector<GrammarAutomaton::Call> calls;
  };
  std::vector<State> states{2};
  uint32_t add() {
    states.emplace_back();
    return uint32_t(states.size() - 1);
  }
};

// Without empty edges. State 0 is the start.
struct RuleGraph {
  struct State {
    std::vector<GrammarAutomaton::ByteEdge> edges;  // ascending
    std::vector<GrammarAutomaton::Call> calls;      // ascending by rule
    bool accepts = false;
    bool operator==(const State&) const = default;
  };
  std::vector<State> states;
};

// The same language, deterministic over bytes and calls unless that takes more than 4 times the
// states; then only the empty edges are removed.
RuleGraph remove_empty_edges(const RuleNfa& nfa);

// Removes the states from which the end cannot be reached, or which the start does not reach. Calls
// of rules that are not in `productive` [n_rules] lead nowhere. The start stays. Returns whether
// the end can be reached.
bool trim(RuleGraph& graph, const std::vector<bool>& productive);

// Merges states with equal edges, and again those that became equal, up to 8 times.
void merge_equal_states(RuleGraph& graph);

}  // namespace vesper
