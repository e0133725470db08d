// All ways in which an automaton can read a text so far, moved on byte by byte. Called by
// GrammarMatcher with the stacks of a sequence, and by GrammarMaskCache with stacks that begin at
// one rule.
//
// A stack is a node, a set of edges to the frames below. All calls of a rule at one position share
// a node, so ambiguous grammars take polynomial time and memory. Equal nodes are stored once.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "llm/grammar/automaton/automaton.h"

namespace vesper {

// The nodes of stacks. Append-only, until compacted.
class StackArena {
 public:
  // What happens when the rule that was called ends.
  struct Edge {
    uint32_t target;  // a state to go on from, kEnd, or a rule with kCounterFrame or kOrderFrame
    // kCounterFrame: how often the body ended before. kOrderFrame: the set of the items before this
    // one.
    uint32_t value;
    uint32_t item;    // kOrderFrame: the current item, or kSeparator, or kExtra
    uint32_t parent;  // a node
    auto operator<=>(const Edge&) const = default;
  };
  static constexpr uint32_t kEnd = UINT32_MAX;
  static constexpr uint32_t kCounterFrame = 0x80000000, kOrderFrame = 0xC0000000;
  static constexpr uint32_t kRuleMask = 0x3FFFFFFF;
  static constexpr uint32_t kSeparator = UINT32_MAX, kExtra = UINT32_MAX - 1;
  static bool is_order_frame(uint32_t target) {
    return target != kEnd && (target & kOrderFrame) == kOrderFrame;
  }
  static bool is_counter_frame(uint32_t target) { return (target & kOrderFrame) == kCounterFrame; }
  // The node below the root rule; its edge is kEnd.
  static constexpr uint32_t kBottom = 0;

  // `most_items`: of a rule whose items come in any order.
  explicit StackArena(uint32_t most_items);

  uint32_t n_nodes() const { return uint32_t(nodes_.size()); }
  // Room for nodes, so that new ones do not allocate.
  void reserve(uint32_t n_nodes);
  std::span<const Edge> edges(uint32_t node) const {
    return std::span(edges_).subspan(nodes_[node].first_edge, nodes_[node].n_edges);
  }
  // The node with these edges, which are ascending and differ.
  uint32_t node_of(std::span<const Edge> edges);

  // Sets of items. Set 0 is empty.
  bool has_item(uint32_t set, uint32_t item) const {
    return sets_[size_t(set) * words_ + item / 64] >> (item % 64) & 1;
  }
  uint32_t with_item(uint32_t set, uint32_t item);

  // Removes all nodes and sets that `nodes` do not need, and renumbers `nodes`.
  void compact(std::span<uint32_t* const> nodes);

 private:
  struct Node {
    uint32_t first_edge, n_edges;
  };
  void insert_slot(std::vector<uint32_t>& slots, uint64_t hash, uint32_t index) const;
  uint64_t hash_of_set(std::span<const uint64_t> set) const;

  size_t words_;  // of a set
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<uint64_t> sets_;
  std::vector<uint32_t> node_slots_, set_slots_;  // hash tables with open addressing
};

// A state to read the next byte in, and what follows the end of its rule.
struct Configuration {
  uint32_t state, node;
  auto operator<=>(const Configuration&) const = default;
};

struct ConfigurationSet {
  std::vector<Configuration> configurations;  // ascending; each has a next byte
  bool may_end = false;                       // the bottom of the stack was reached
  bool operator==(const ConfigurationSet&) const = default;
};

// Moves sets of configurations. Holds scratch memory only, so one object serves any arena of the
// same automaton.
class ConfigurationStepper {
 public:
  explicit ConfigurationStepper(const GrammarAutomaton& automaton);

  // The functions below throw Error(kUsage) for more than 10,000 configurations, or 100,000 edges
  // of new nodes.

  // At the begin of `rule`, called at the bottom of the stack.
  void start(StackArena& arena, uint32_t rule, ConfigurationSet& out);
  // After `byte`. Empty, and without may_end, if the byte may not follow. `out` is not `from`.
  void step(StackArena& arena, const ConfigurationSet& from, uint8_t byte, ConfigurationSet& out);
  // After the end of a rule that `node` was pushed for.
  void end_rule(StackArena& arena, uint32_t node, ConfigurationSet& out);

 private:
  static constexpr uint32_t kOpenNode = 0x80000000;  // | rule: the node of a call at this position
  static constexpr uint32_t kEndRule = UINT32_MAX;   // instead of a state: the node's rule ends
  static constexpr uint32_t kInherit = UINT32_MAX - 1;  // edge target: the edges of `parent`
  using Edge = StackArena::Edge;

  void begin(StackArena& arena);
  void visit(uint32_t state, uint32_t node);
  void run();
  void finish(ConfigurationSet& out);
  void expand(uint32_t state, uint32_t node);
  void pop(uint32_t node);
  void end_counted(const Edge& edge);
  void end_item(const Edge& edge);
  void call(uint32_t rule, const Edge& edge);
  void choose_item(uint32_t rule, uint32_t set, uint32_t parent);
  void check_size() const;
  void close_nodes();

  const GrammarAutomaton& automaton_;
  StackArena* arena_ = nullptr;
  std::vector<Configuration> pending_, result_;
  std::vector<Configuration> seen_;   // hash table with open addressing
  std::vector<uint32_t> seen_slots_;  // by slot, the round that filled it
  uint32_t round_ = 0;
  size_t n_seen_ = 0, n_edges_ = 0;
  std::vector<std::vector<Edge>> open_edges_;  // by rule, of its open node
  std::vector<uint32_t> open_rules_;
  std::vector<uint32_t> closed_;  // by rule, the node that its open node became
  std::vector<Edge> edge_scratch_;
  bool may_end_ = false;
};

}  // namespace vesper
