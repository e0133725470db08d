#include "llm/grammar/rules/node_facts.h"

#include <algorithm>

#include "error/error.h"

namespace vesper {

namespace {

constexpr uint32_t kMostUnrolledStates = 256;
constexpr uint32_t kWideClass = 64;  // characters
constexpr uint32_t kDeepest = 500;

uint32_t add(uint32_t a, uint32_t b) {
  return uint32_t(std::min<uint64_t>(uint64_t(a) + b, NodeFacts::kInfinite));
}
uint32_t multiply(uint32_t a, uint32_t b) {
  return uint32_t(std::min<uint64_t>(uint64_t(a) * b, NodeFacts::kInfinite));
}

class FactFinder {
 public:
  explicit FactFinder(const Grammar& grammar)
      : grammar_(grammar), facts_(grammar.nodes().size()), phase_(facts_.size(), kNew) {}

  std::vector<NodeFacts> run() {
    check_depth();
    visit(node_of(grammar_.root(), "the root"));
    return std::move(facts_);
  }

 private:
  enum Phase : uint8_t { kNew, kOpen, kDone };

  void check_depth() const {
    std::vector<uint32_t> depth(facts_.size(), 1);
    for (uint32_t i = 0; i < depth.size(); ++i) {
      for_each_child(grammar_.nodes()[i],
                     [&](uint32_t child) { depth[i] = std::max(depth[i], depth[child] + 1); });
      if (depth[i] > kDeepest)
        throw Error(
            ErrorKind::kUsage, grammar_.setting(),
            "expected at most " + std::to_string(kDeepest) + " levels of nesting in a rule");
    }
  }

  uint32_t node_of(uint32_t rule, const std::string& from) const {
    const auto rules = grammar_.rules();
    if (rule < rules.size() && rules[rule].node != Grammar::kNone) return rules[rule].node;
    throw Error(ErrorKind::kUsage, grammar_.setting(),
                rule < rules.size() ? "rule " + rules[rule].name + " is not defined"
                                    : "expected a rule for " + from + ", found none");
  }

  template <class Use>
  void for_each_child(const GrammarNode& node, Use&& use) const {
    switch (node.kind) {
      case GrammarNodeKind::kAnyOrder:
        use(node.separator);
        if (node.extra != Grammar::kNone) use(node.extra);
        [[fallthrough]];
      case GrammarNodeKind::kSequence:
      case GrammarNodeKind::kChoice:
        for (uint32_t child : grammar_.children(node)) use(child);
        break;
      case GrammarNodeKind::kRepeat:
        use(node.child);
        break;
      default:
        break;
    }
  }

  // Depth first, with a stack of its own: chains of rules may be long.
  void visit(uint32_t root) {
    std::vector<uint32_t> stack{root};
    while (!stack.empty()) {
      const uint32_t i = stack.back();
      const auto& node = grammar_.nodes()[i];
      if (phase_[i] == kNew) {
        phase_[i] = kOpen;
        const auto push = [&](uint32_t child) {
          if (phase_[child] == kNew) stack.push_back(child);
        };
        if (node.kind == GrammarNodeKind::kRule) push(node_of(node.rule, "a reference"));
        for_each_child(node, push);
        continue;
      }
      stack.pop_back();
      if (phase_[i] == kDone) continue;
      facts_[i] = facts_of(node);  // open until then: a rule may refer to itself
      phase_[i] = kDone;
    }
  }

  NodeFacts facts_of(const GrammarNode& node) const {
    NodeFacts facts;
    switch (node.kind) {
      case GrammarNodeKind::kEmpty:
        break;
      case GrammarNodeKind::kLiteral:
        facts = {node.count, node.count, node.count, false, false};
        break;
      case GrammarNodeKind::kClass: {
        uint64_t characters = 0;
        for (const auto& range : grammar_.ranges(node)) characters += range.last - range.first + 1;
        const bool ascii = characters <= 128;
        const uint32_t states = ascii ? 1 : 4;
        facts = {states, states, ascii ? 1u : 4u, characters > kWideClass, false};
        break;
      }
      case GrammarNodeKind::kRule: {
        const uint32_t target = node_of(node.rule, "a reference");
        if (phase_[target] == kDone)
          facts = facts_[target];
        else
          facts.expanded = facts.longest = NodeFacts::kInfinite;  // recursive
        facts.expanded = add(facts.expanded, 1);                  // bounds the chains of rules
        facts.n_states = 1;
        break;
      }
      case GrammarNodeKind::kSequence:
      case GrammarNodeKind::kChoice:
        for (uint32_t child : grammar_.children(node)) {
          const auto& one = facts_[child];
          facts.n_states = add(facts.n_states, one.n_states);
          facts.expanded = add(facts.expanded, one.expanded);
          facts.longest = node.kind == GrammarNodeKind::kSequence
                              ? add(facts.longest, one.longest)
                              : std::max(facts.longest, one.longest);
          facts.wide = facts.wide || one.wide;
          facts.wide_loop = facts.wide_loop || one.wide_loop;
        }
        break;
      case GrammarNodeKind::kRepeat: {
        const auto& child = facts_[node.child];
        facts = child;
        const bool bounded = node.max != Grammar::kUnbounded;
        const uint32_t copies = std::max(bounded ? node.max : node.min, 1u);
        facts.n_states = is_unrolled(node, child) ? multiply(child.n_states, copies) : 1;
        facts.expanded = multiply(child.expanded, copies);
        facts.longest = child.longest == 0 ? 0
                        : bounded          ? multiply(child.longest, node.max)
                                           : NodeFacts::kInfinite;
        facts.wide_loop = child.wide_loop || (child.wide && node.max > 1);
        break;
      }
      case GrammarNodeKind::kAnyOrder:
        facts = {1, NodeFacts::kInfinite, NodeFacts::kInfinite, true, true};
        break;
      case GrammarNodeKind::kAutomaton: {
        const auto n_states = uint32_t(grammar_.automaton(node).states.size());
        facts = {n_states, n_states, NodeFacts::kInfinite, true, true};
        break;
      }
    }
    return facts;
  }

  const Grammar& grammar_;
  std::vector<NodeFacts> facts_;
  std::vector<Phase> phase_;
};

}  // namespace

std::vector<NodeFacts> facts_of_nodes(const Grammar& grammar) { return FactFinder(grammar).run(); }

bool is_unrolled(const GrammarNode& repeat, const NodeFacts& child) {
  const uint32_t copies = repeat.max == Grammar::kUnbounded ? repeat.min : repeat.max;
  if (copies <= 1) return true;
  return (!child.wide || copies <= 3) && multiply(child.n_states, copies) <= kMostUnrolledStates;
}

}  // namespace vesper
