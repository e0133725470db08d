// A pushdown automaton over bytes. Made by CompiledGrammar; run by ConfigurationStepper.
//
// A rule is a set of states with edges for bytes and calls of other rules, or one of two rules
// whose progress is counted on the stack: a repetition, and items in any order. The automaton is
// trimmed: from every state some text leads to the end of its rule.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vesper {

class GrammarAutomaton {
 public:
  static constexpr uint32_t kTailCall = UINT32_MAX;
  static constexpr uint32_t kUnbounded = UINT32_MAX;
  static constexpr uint32_t kNone = UINT32_MAX;

  struct ByteEdge {
    uint8_t first, last;  // both included
    uint32_t target;      // a state
    bool operator==(const ByteEdge&) const = default;
  };
  struct Call {
    uint32_t rule;
    uint32_t then;  // the state after the rule; kTailCall: the end of the calling rule
    bool operator==(const Call&) const = default;
  };
  struct State {
    uint32_t first_edge, first_call;  // to those of the next state
    uint32_t byte_class;              // equal for states with equal byte edges
    bool accepts;                     // the rule may end
  };
  enum class RuleKind : uint8_t { kStates, kCounter, kAnyOrder };
  struct Rule {
    RuleKind kind = RuleKind::kStates;
    bool nullable = false;   // matches the empty text
    uint32_t left_rank = 0;  // above those of the rules that call it before any byte
    // kStates. The start has no edges to it from states that follow a byte, unless it does not
    // accept; it does not accept if the rule is nullable: callers skip the rule instead.
    uint32_t start = 0;
    // kCounter: body, min to max times. kAnyOrder: min to max of the items.
    uint32_t min = 0, max = 0, body = 0;
    // kAnyOrder: items[first_item .. first_item + n_items), the first n_required of which must
    // occur, `extra` (or kNone) any number of times, `separator` between two.
    uint32_t first_item = 0, n_items = 0, n_required = 0, separator = 0, extra = 0;
  };

  std::span<const ByteEdge> edges(uint32_t state) const {
    return std::span(byte_edges)
        .subspan(states[state].first_edge, states[state + 1].first_edge - states[state].first_edge);
  }
  std::span<const Call> calls_of(uint32_t state) const {
    return std::span(calls).subspan(states[state].first_call,
                                    states[state + 1].first_call - states[state].first_call);
  }
  uint32_t n_states() const { return uint32_t(states.size()) - 1; }

  std::vector<State> states;  // [n_states + 1]
  std::vector<ByteEdge> byte_edges;
  std::vector<Call> calls;
  std::vector<Rule> rules;
  std::vector<uint32_t> items;  // rules
  uint32_t root = 0;
  uint32_t n_byte_classes = 0;
  uint32_t most_items = 0;  // of any kAnyOrder
  std::string setting;      // for messages
};

}  // namespace vesper
