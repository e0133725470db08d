#include "llm/grammar/automaton/compiled_grammar.h"

#include <algorithm>
#include <map>

#include "error/error.h"
#include "llm/grammar/automaton/automaton.h"
#include "llm/grammar/automaton/rule_builder.h"

namespace vesper {

namespace {

using RuleKind = GrammarAutomaton::RuleKind;

class AutomatonMaker {
 public:
  explicit AutomatonMaker(const Grammar& grammar)
      : setting_(grammar.setting()), rules_(build_rules(grammar)) {}

  GrammarAutomaton run() {
    find_nullable();
    find_left_calls();
    rank_by_left_calls();
    trim_rules();
    for (auto& rule : rules_) split_start(rule);
    return assemble();
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorKind::kUsage, setting_, message);
  }

  // The rules that call each rule, for fixed points.
  std::vector<std::vector<uint32_t>> callers() const {
    std::vector<std::vector<uint32_t>> callers(rules_.size());
    for (uint32_t i = 0; i < rules_.size(); ++i) {
      const auto& rule = rules_[i];
      for (const auto& state : rule.graph.states)
        for (const auto& call : state.calls) callers[call.rule].push_back(i);
      if (rule.kind == RuleKind::kCounter) callers[rule.body].push_back(i);
      if (rule.kind == RuleKind::kAnyOrder) {
        for (uint32_t item : rule.items) callers[item].push_back(i);
        callers[rule.separator].push_back(i);
        if (rule.extra != GrammarAutomaton::kNone) callers[rule.extra].push_back(i);
      }
    }
    for (auto& list : callers) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
    return callers;
  }

  // Sets holds[i] for the rules for which test(i) holds, given those set before.
  template <class Test>
  void grow(std::vector<bool>& holds, Test&& test) const {
    const auto callers_of = callers();
    std::vector<uint32_t> pending(rules_.size());
    for (uint32_t i = 0; i < pending.size(); ++i) pending[i] = i;
    while (!pending.empty()) {
      const uint32_t i = pending.back();
      pending.pop_back();
      if (holds[i] || !test(i)) continue;
      holds[i] = true;
      pending.insert(pending.end(), callers_of[i].begin(), callers_of[i].end());
    }
  }

  // The states of a rule that are reached without a byte, by way of nullable rules.
  std::vector<uint32_t> reached_without_bytes(const RuleGraph& graph,
                                              const std::vector<bool>& nullable) const {
    std::vector<uint32_t> reached{0};
    std::vector<bool> seen(graph.states.size());
    seen[0] = true;
    for (size_t i = 0; i < reached.size(); ++i)
      for (const auto& call : graph.states[reached[i]].calls)
        if (nullable[call.rule] && !seen[call.then]) {
          seen[call.then] = true;
          reached.push_back(call.then);
        }
    return reached;
  }

  void find_nullable() {
    std::vector<bool> nullable(rules_.size());
    grow(nullable, [&](uint32_t i) {
      const auto& rule = rules_[i];
      if (rule.kind == RuleKind::kCounter) return rule.min == 0 || nullable[rule.body];
      if (rule.kind == RuleKind::kAnyOrder) return rule.n_required == 0 && rule.min == 0;
      for (uint32_t state : reached_without_bytes(rule.graph, nullable))
        if (rule.graph.states[state].accepts) return true;
      return false;
    });
    for (size_t i = 0; i < rules_.size(); ++i) rules_[i].nullable = nullable[i];
    for (auto& rule : rules_) {
      if (rule.kind == RuleKind::kCounter && rules_[rule.body].nullable) rule.min = 0;
      if (rule.kind != RuleKind::kAnyOrder) continue;
      auto parts = rule.items;
      if (rule.extra != GrammarAutomaton::kNone) parts.push_back(rule.extra);
      for (uint32_t item : parts)
        if (rules_[item].nullable)
          fail("expected items in any order that are not empty, found " +
               (rules_[item].name.empty() ? "one that may be" : rules_[item].name));
    }
  }

  void find_left_calls() {
    std::vector<bool> nullable(rules_.size());
    for (size_t i = 0; i < rules_.size(); ++i) nullable[i] = rules_[i].nullable;
    left_calls_.resize(rules_.size());
    for (uint32_t i = 0; i < rules_.size(); ++i) {
      const auto& rule = rules_[i];
      auto& calls = left_calls_[i];
      if (rule.kind == RuleKind::kStates)
        for (uint32_t state : reached_without_bytes(rule.graph, nullable))
          for (const auto& call : rule.graph.states[state].calls) calls.push_back(call.rule);
      if (rule.kind == RuleKind::kCounter) calls.push_back(rule.body);
      if (rule.kind == RuleKind::kAnyOrder) {
        calls = rule.items;
        if (rule.extra != GrammarAutomaton::kNone) calls.push_back(rule.extra);
      }
    }
  }

  void rank_by_left_calls() {
    enum Phase : uint8_t { kNew, kOpen, kDone };
    std::vector<Phase> phase(rules_.size(), kNew);
    ranks_.assign(rules_.size(), 0);
    auto next_rank = uint32_t(rules_.size());
    struct Visit {
      uint32_t rule;
      size_t next_call;
    };
    std::vector<Visit> stack;
    for (uint32_t root = 0; root < rules_.size(); ++root) {
      if (phase[root] != kNew) continue;
      stack.push_back({root, 0});
      phase[root] = kOpen;
      while (!stack.empty()) {
        auto& [rule, next_call] = stack.back();
        if (next_call == left_calls_[rule].size()) {
          phase[rule] = kDone;
          ranks_[rule] = --next_rank;
          stack.pop_back();
          continue;
        }
        const uint32_t callee = left_calls_[rule][next_call++];
        if (phase[callee] == kOpen) {
          std::string cycle;  // the rules with names, from the callee on
          bool in_cycle = false;
          for (const auto& visit : stack) {
            in_cycle = in_cycle || visit.rule == callee;
            if (in_cycle && !rules_[visit.rule].name.empty())
              cycle += (cycle.empty() ? "" : ", ") + rules_[visit.rule].name;
          }
          fail("expected no left recursion, found it in " + cycle);
        }
        if (phase[callee] == kNew) {
          phase[callee] = kOpen;
          stack.push_back({callee, 0});
        }
      }
    }
  }

  void trim_rules() {
    std::vector<bool> productive(rules_.size());
    grow(productive, [&](uint32_t i) {
      const auto& rule = rules_[i];
      if (rule.kind == RuleKind::kCounter) return rule.min == 0 || productive[rule.body];
      if (rule.kind == RuleKind::kAnyOrder)
        return productive[rule.separator] &&
               std::count_if(rule.items.begin(), rule.items.end(),
                             [&](uint32_t item) { return productive[item]; }) >= rule.min &&
               std::all_of(rule.items.begin(), rule.items.begin() + rule.n_required,
                           [&](uint32_t item) { return productive[item]; });
      auto graph = rule.graph;
      return trim(graph, productive);
    });
    if (!productive[0])
      fail("expected a grammar that admits some text, found none in " + rules_[0].name);
    for (auto& rule : rules_) {
      if (rule.kind == RuleKind::kStates) trim(rule.graph, productive);
      std::erase_if(rule.items, [&](uint32_t item) { return !productive[item]; });
      rule.n_required = std::min(rule.n_required, uint32_t(rule.items.size()));
      if (rule.kind == RuleKind::kAnyOrder && rule.extra != GrammarAutomaton::kNone &&
          !productive[rule.extra])
        rule.extra = GrammarAutomaton::kNone;
    }
  }

  // A start that accepts is left to the callers of a nullable rule. If the rule returns to it after
  // some bytes, the start becomes a state of its own.
  static void split_start(DraftRule& rule) {
    if (rule.kind != RuleKind::kStates || !rule.graph.states[0].accepts) return;
    auto& states = rule.graph.states;
    const auto copy = uint32_t(states.size());
    bool returns = false;
    for (auto& state : states) {
      for (auto& edge : state.edges)
        if (edge.target == 0) edge.target = copy, returns = true;
      for (auto& call : state.calls)
        if (call.then == 0) call.then = copy, returns = true;
    }
    if (returns) states.push_back(states[0]);
    states[0].accepts = false;
  }

  GrammarAutomaton assemble() {
    GrammarAutomaton automaton;
    automaton.setting = setting_;
    std::map<std::vector<uint32_t>, uint32_t> classes;
    for (uint32_t i = 0; i < rules_.size(); ++i) {
      auto& draft = rules_[i];
      auto& rule = automaton.rules.emplace_back();
      rule.kind = draft.kind;
      rule.nullable = draft.nullable;
      rule.left_rank = ranks_[i];
      rule.min = draft.min;
      rule.max = draft.max;
      rule.body = draft.body;
      rule.n_required = draft.n_required;
      rule.separator = draft.separator;
      rule.extra = draft.extra;
      rule.first_item = uint32_t(automaton.items.size());
      rule.n_items = uint32_t(draft.items.size());
      automaton.items.insert(automaton.items.end(), draft.items.begin(), draft.items.end());
      automaton.most_items = std::max(automaton.most_items, rule.n_items);
      const auto base = uint32_t(automaton.states.size());
      rule.start = base;
      const auto& states = draft.graph.states;
      for (const auto& state : states) {
        std::vector<uint32_t> key;
        const auto first_edge = uint32_t(automaton.byte_edges.size());
        for (auto edge : state.edges) {
          edge.target += base;
          automaton.byte_edges.push_back(edge);
          key.insert(key.end(), {edge.first, edge.last, edge.target});
        }
        const auto byte_class = classes.try_emplace(std::move(key), uint32_t(classes.size()));
        automaton.states.push_back({first_edge, uint32_t(automaton.calls.size()),
                                    byte_class.first->second, state.accepts});
        for (const auto& call : state.calls) {
          const auto& then = states[call.then];
          const bool tail = then.accepts && then.edges.empty() && then.calls.empty();
          automaton.calls.push_back(
              {call.rule, tail ? GrammarAutomaton::kTailCall : call.then + base});
        }
      }
    }
    automaton.n_byte_classes = uint32_t(classes.size());
    automaton.states.push_back(
        {uint32_t(automaton.byte_edges.size()), uint32_t(automaton.calls.size()), 0, false});
    return automaton;
  }

  const std::string setting_;
  std::vector<DraftRule> rules_;
  std::vector<std::vector<uint32_t>> left_calls_;  // by rule
  std::vector<uint32_t> ranks_;                    // by rule
};

}  // namespace

CompiledGrammar::CompiledGrammar(const Grammar& grammar)
    : automaton_(std::make_shared<const GrammarAutomaton>(AutomatonMaker(grammar).run())) {}

}  // namespace vesper
