// A grammar as a user writes it. In: its notation and its text. Out: a compiled grammar, and masks
// that several texts share. Used by session/text and decoder/.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "llm/grammar/automaton/compiled_grammar.h"
#include "llm/grammar/matching/grammar_matcher.h"

namespace vesper {

enum class GrammarNotation {
  kGbnf,        // llama.cpp's notation (llm/grammar/gbnf.h)
  kJsonSchema,  // a JSON document
  kJson,        // any JSON value; the text is empty
  kRegex,       // an expression that the whole text matches
};

struct GrammarOptions {
  GrammarNotation notation = GrammarNotation::kGbnf;
  std::string text = {};
  // Answers of language models only: the grammar begins after this text of the answer; empty: at
  // once. Absent: after thinking, if the prompt or the model's first token begins it, else at once.
  std::optional<std::string> after = {};
};

// A space before the text of a grammar.
enum class LeadingSpace { kNone, kOptional };

// Throws Error(kUsage) that names the setting ("grammar", "JSON schema" or "regex"), the place and
// what was expected.
CompiledGrammar compile_grammar(const GrammarOptions& options,
                                LeadingSpace space = LeadingSpace::kNone);

// The last grammars that a model used, with their masks. One thread at a time uses it.
class GrammarCache {
 public:
  // `make_vocabulary` is called for the first grammar.
  explicit GrammarCache(std::function<TokenVocabulary()> make_vocabulary,
                        LeadingSpace space = LeadingSpace::kNone)
      : make_vocabulary_(std::move(make_vocabulary)), space_(space) {}

  // Throws like compile_grammar() and make_vocabulary().
  const std::shared_ptr<const GrammarMasks>& masks(const GrammarOptions& options);

 private:
  struct Kept {
    GrammarNotation notation;
    std::string text;
    std::shared_ptr<const GrammarMasks> masks;
  };

  std::function<TokenVocabulary()> make_vocabulary_;
  LeadingSpace space_;
  std::shared_ptr<const TokenVocabulary> vocabulary_;
  std::list<Kept> kept_;  // the last used one first
};

}  // namespace vesper
