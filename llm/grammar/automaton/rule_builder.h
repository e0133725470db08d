// The rules of an automaton from a syntax tree, before they are joined. Called by CompiledGrammar.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "llm/grammar/automaton/rule_graph.h"
#include "llm/grammar/rules/grammar.h"
#include "llm/grammar/rules/node_facts.h"

namespace vesper {

struct DraftRule {
  GrammarAutomaton::RuleKind kind = GrammarAutomaton::RuleKind::kStates;
  uint32_t node = 0;     // that it matches
  bool in_loop = false;  // it is the body of a counted repetition
  std::string name;      // for messages: "rule object (line 3, column 1)"; may be empty
  RuleGraph graph;       // kStates
  uint32_t min = 0, max = 0, body = 0;  // kCounter
  std::vector<uint32_t> items;          // kAnyOrder: rules, required ones first
  uint32_t n_required = 0, separator = 0, extra = 0;
  bool nullable = false;
};

// The first rule is the root. Throws as facts_of_nodes() does, and Error(kUsage) for more than
// 500,000 states.
std::vector<DraftRule> build_rules(const Grammar& grammar);

}  // namespace vesper
