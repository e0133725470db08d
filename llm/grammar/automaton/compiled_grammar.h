// A grammar as a pushdown automaton over bytes. In: a syntax tree. Out: what GrammarMasks runs.
// Made once per grammar, independent of the model.
#pragma once

#include <memory>

#include "llm/grammar/rules/grammar.h"

namespace vesper {

class GrammarAutomaton;

// Immutable, cheap to copy, thread-safe.
class CompiledGrammar {
 public:
  // Throws Error(kUsage) that names the grammar's setting, the rule and its place: left recursion,
  // a rule that is not defined, a grammar that admits no text, nesting deeper than 500 nodes, more
  // than 500,000 states.
  explicit CompiledGrammar(const Grammar& grammar);

  const std::shared_ptr<const GrammarAutomaton>& automaton() const { return automaton_; }

 private:
  std::shared_ptr<const GrammarAutomaton> automaton_;
};

}  // namespace vesper
