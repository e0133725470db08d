// Which tokens may follow the tokens of an answer. In: a compiled grammar, a vocabulary, and the
// tokens of an answer one by one. Out: bit masks. Called by llm/generation.
//
//   auto masks = std::make_shared<GrammarMasks>(CompiledGrammar(parse_gbnf(text)), vocabulary);
//   GrammarMatcher matcher(masks);                // one per sequence
//   std::vector<uint32_t> bits(masks->n_words());
//   matcher.fill_mask(bits); ... matcher.accept(token);
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/grammar/automaton/compiled_grammar.h"
#include "llm/grammar/matching/token_vocabulary.h"

namespace vesper {

class GrammarMaskFiller;

// A grammar with a vocabulary, and the parts of masks that do not depend on a matcher's stack.
// Shared by the matchers of several sequences and threads: the parts are computed when a matcher
// first needs them, under a lock.
class GrammarMasks {
 public:
  GrammarMasks(CompiledGrammar grammar, std::shared_ptr<const TokenVocabulary> vocabulary);
  ~GrammarMasks();

  const TokenVocabulary& vocabulary() const { return *vocabulary_; }
  size_t n_words() const { return vocabulary_->n_words(); }  // of a mask
  const GrammarAutomaton& automaton() const { return *grammar_.automaton(); }
  GrammarMaskFiller& filler() const { return *filler_; }

 private:
  CompiledGrammar grammar_;
  std::shared_ptr<const TokenVocabulary> vocabulary_;
  std::unique_ptr<GrammarMaskFiller> filler_;
};

// The state of one sequence. Copies are independent and cost a few kilobytes: a beam copies its
// parent's matcher. One thread at a time may use a matcher.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(std::shared_ptr<const GrammarMasks> masks);
  GrammarMatcher(const GrammarMatcher&);
  GrammarMatcher(GrammarMatcher&&) noexcept;
  GrammarMatcher& operator=(const GrammarMatcher&);
  GrammarMatcher& operator=(GrammarMatcher&&) noexcept;
  ~GrammarMatcher();

  // Sets bit id % 32 of bits[id / 32] if token `id` may follow, and clears all others.
  // `bits`: [n_words]. Stop tokens are allowed where the text may end. After a stop token nothing
  // is allowed. Returns whether any token is allowed; none is if the vocabulary cannot spell what
  // the grammar demands. Throws Error(kUsage) if the grammar is so ambiguous that the text has more
  // than 10,000 readings at once.
  bool fill_mask(std::span<uint32_t> bits);

  // Moves past a token. Returns false, and changes nothing, if the token is not allowed, special or
  // out of range. Throws as fill_mask() does.
  bool accept(int32_t token);
  // Moves past text. Returns false, and changes nothing, unless the grammar admits a text that goes
  // on with these bytes.
  bool accept_bytes(std::string_view bytes);
  // Back to the begin of a text.
  void reset();

  bool may_end() const;      // the text so far is a whole text of the grammar
  bool is_complete() const;  // ... and nothing may follow, or a stop token was accepted

  // The longest text, of at most `limit` bytes, that must come next: at each of its bytes neither
  // another byte nor the end is allowed. May end inside of a character. Does not move.
  std::string forced_bytes(size_t limit = 4096);

  const GrammarMasks& masks() const { return *masks_; }

 private:
  struct State;
  std::shared_ptr<const GrammarMasks> masks_;
  std::unique_ptr<State> state_;
};

}  // namespace vesper
