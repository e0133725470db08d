#include "llm/grammar/automaton/rule_builder.h"

#include "error/error.h"
#include "llm/grammar/rules/utf8_ranges.h"

namespace vesper {

namespace {

using RuleKind = GrammarAutomaton::RuleKind;

constexpr size_t kMostStates = 500'000;
// Nodes visited while rules are expanded; a shared node counts wherever it is used.
constexpr size_t kMostVisits = 4'000'000;

class RuleBuilder {
 public:
  explicit RuleBuilder(const Grammar& grammar)
      : grammar_(grammar), facts_(facts_of_nodes(grammar)) {}

  std::vector<DraftRule> run() {
    rule_of(grammar_.root());
    // drafts_ grows while rules are built.
    for (size_t i = 0; i < drafts_.size(); ++i)
      if (drafts_[i].kind == RuleKind::kStates) build_states(i);
    return std::move(drafts_);
  }

 private:
  uint32_t rule_of(uint32_t grammar_rule) {
    const auto& rule = grammar_.rules()[grammar_rule];
    const uint32_t index = draft_of(rule.node, false);
    if (drafts_[index].name.empty())
      drafts_[index].name =
          "rule " + rule.name + (rule.place.empty() ? "" : " (" + rule.place + ")");
    return index;
  }

  // The automaton's rule for a node: an item, or the body of a counted repetition.
  uint32_t rule_of_node(uint32_t node, bool in_loop) {
    const auto& one = grammar_.nodes()[node];
    return one.kind == GrammarNodeKind::kRule ? rule_of(one.rule) : draft_of(node, in_loop);
  }

  uint32_t draft_of(uint32_t node, bool in_loop) {
    const auto [place, is_new] = draft_indices_.try_emplace(node, uint32_t(drafts_.size()));
    if (is_new) {
      drafts_.emplace_back();
      drafts_.back().node = node;
      drafts_.back().in_loop = in_loop;
    }
    return place->second;
  }

  uint32_t counter_of(uint32_t node) {
    const auto [place, is_new] = frame_indices_.try_emplace(node, 0);
    if (!is_new) return place->second;
    const auto& repeat = grammar_.nodes()[node];
    DraftRule draft;
    draft.kind = RuleKind::kCounter;
    draft.min = repeat.min;
    draft.max = repeat.max;
    draft.body = rule_of_node(repeat.child, true);
    return place->second = add_draft(std::move(draft));
  }

  uint32_t any_order_of(uint32_t node) {
    const auto [place, is_new] = frame_indices_.try_emplace(node, 0);
    if (!is_new) return place->second;
    const auto& order = grammar_.nodes()[node];
    DraftRule draft;
    draft.kind = RuleKind::kAnyOrder;
    draft.n_required = order.required;
    draft.min = order.min;
    draft.max = order.max;
    for (uint32_t child : grammar_.children(order))
      draft.items.push_back(rule_of_node(child, false));
    draft.separator = rule_of_node(order.separator, false);
    draft.extra =
        order.extra == Grammar::kNone ? GrammarAutomaton::kNone : rule_of_node(order.extra, false);
    return place->second = add_draft(std::move(draft));
  }

  uint32_t add_draft(DraftRule draft) {
    drafts_.push_back(std::move(draft));
    return uint32_t(drafts_.size() - 1);
  }

  void build_states(size_t index) {
    nfa_ = RuleNfa();
    build(drafts_[index].node, 0, 1, drafts_[index].in_loop);
    auto graph = remove_empty_edges(nfa_);
    merge_equal_states(graph);
    n_states_ += graph.states.size();
    check_size(0);
    drafts_[index].graph = std::move(graph);
  }

  uint32_t add_state() {
    check_size(nfa_.states.size());
    return nfa_.add();
  }

  void check_size(size_t n_more_states) const {
    if (n_states_ + n_more_states > kMostStates || n_visits_ > kMostVisits)
      throw Error(ErrorKind::kUsage, grammar_.setting(),
                  "expected at most " + std::to_string(kMostStates) + " states");
  }

  // Adds paths between two states for what a node matches. Nothing else may leave `from` by a path
  // that returns to it, so loops have states of their own.
  void build(uint32_t node, uint32_t from, uint32_t to, bool in_loop) {
    ++n_visits_;
    check_size(0);
    const auto& one = grammar_.nodes()[node];
    switch (one.kind) {
      case GrammarNodeKind::kEmpty:
        nfa_.states[from].empty.push_back(to);
        break;
      case GrammarNodeKind::kLiteral:
        build_literal(grammar_.bytes(one), from, to);
        break;
      case GrammarNodeKind::kClass:
        build_class(grammar_.ranges(one), from, to);
        break;
      case GrammarNodeKind::kRule:
        if (is_inlined(facts_[node], in_loop))
          build(grammar_.rules()[one.rule].node, from, to, in_loop);
        else
          nfa_.states[from].calls.push_back({rule_of(one.rule), to});
        break;
      case GrammarNodeKind::kSequence: {
        const auto children = grammar_.children(one);
        uint32_t last = from;
        for (size_t i = 0; i < children.size(); ++i) {
          const uint32_t next = i + 1 == children.size() ? to : add_state();
          build(children[i], last, next, in_loop);
          last = next;
        }
        if (children.empty()) nfa_.states[from].empty.push_back(to);
        break;
      }
      case GrammarNodeKind::kChoice:
        for (uint32_t child : grammar_.children(one)) build(child, from, to, in_loop);
        break;
      case GrammarNodeKind::kRepeat:
        build_repeat(node, from, to, in_loop);
        break;
      case GrammarNodeKind::kAnyOrder:
        nfa_.states[from].calls.push_back({any_order_of(node), to});
        break;
      case GrammarNodeKind::kAutomaton:
        build_automaton(grammar_.automaton(one), from, to);
        break;
    }
  }

  // Tiny rules are copied into their callers. So are short ones inside of loops, such as the
  // characters of a string: then a token of many characters stays within one rule, and whether it
  // is allowed does not depend on the stack. What has a large class in a loop of its own stays a
  // rule, because its masks are computed once per state.
  static bool is_inlined(const NodeFacts& facts, bool in_loop) {
    if (facts.expanded == NodeFacts::kInfinite) return false;
    return (facts.expanded <= 9 && !facts.wide_loop) ||
           (in_loop && facts.longest <= 16 && facts.expanded <= 256);
  }

  void build_literal(std::string_view bytes, uint32_t from, uint32_t to) {
    if (bytes.empty()) nfa_.states[from].empty.push_back(to);
    for (size_t i = 0; i < bytes.size(); ++i) {
      const uint32_t next = i + 1 == bytes.size() ? to : add_state();
      nfa_.states[from].edges.push_back({uint8_t(bytes[i]), uint8_t(bytes[i]), next});
      from = next;
    }
  }

  void build_class(std::span<const CodePointRange> ranges, uint32_t from, uint32_t to) {
    std::vector<Utf8Range> utf8;
    for (const auto& range : ranges) append_utf8_ranges(range.first, range.last, utf8);
    for (const auto& one : utf8) {
      uint32_t last = from;
      for (uint32_t i = 0; i < one.length; ++i) {
        const uint32_t next = i + 1 == one.length ? to : add_state();
        nfa_.states[last].edges.push_back({one.bytes[i].first, one.bytes[i].last, next});
        last = next;
      }
    }
  }

  void build_automaton(const ByteAutomaton& automaton, uint32_t from, uint32_t to) {
    const auto first = uint32_t(nfa_.states.size());
    for (const auto& state : automaton.states) {
      auto& added = nfa_.states[add_state()];
      for (const auto& edge : state.edges)
        added.edges.push_back({edge.first, edge.last, first + edge.to});
      if (state.accepts) added.empty.push_back(to);
    }
    if (!automaton.states.empty()) nfa_.states[from].empty.push_back(first);
  }

  void build_repeat(uint32_t node, uint32_t from, uint32_t to, bool in_loop) {
    const auto repeat = grammar_.nodes()[node];
    if (!is_unrolled(repeat, facts_[repeat.child])) {
      nfa_.states[from].calls.push_back({counter_of(node), to});
      return;
    }
    const bool unbounded = repeat.max == Grammar::kUnbounded;
    const bool loops = in_loop || unbounded || repeat.max > 1;
    uint32_t last = add_state();
    nfa_.states[from].empty.push_back(last);
    for (uint32_t i = 0; i < repeat.min; ++i) {
      const uint32_t next = add_state();
      build(repeat.child, last, next, loops);
      last = next;
    }
    nfa_.states[last].empty.push_back(to);
    if (unbounded) {
      // Around from `last`; a state before it keeps the copies above out of the loop.
      const uint32_t again = add_state(), after = add_state();
      nfa_.states[last].empty.push_back(again);
      build(repeat.child, again, after, loops);
      nfa_.states[after].empty.push_back(again);
      nfa_.states[after].empty.push_back(to);
    } else {
      for (uint32_t i = repeat.min; i < repeat.max; ++i) {
        const uint32_t next = add_state();
        build(repeat.child, last, next, loops);
        nfa_.states[next].empty.push_back(to);
        last = next;
      }
    }
  }

  const Grammar& grammar_;
  const std::vector<NodeFacts> facts_;
  std::vector<DraftRule> drafts_;
  std::unordered_map<uint32_t, uint32_t> draft_indices_;  // by node
  std::unordered_map<uint32_t, uint32_t> frame_indices_;  // by node: counters and any-order rules
  RuleNfa nfa_;                                           // of the rule that is being built
  size_t n_states_ = 0, n_visits_ = 0;
};

}  // namespace

std::vector<DraftRule> build_rules(const Grammar& grammar) { return RuleBuilder(grammar).run(); }

}  // namespace vesper
