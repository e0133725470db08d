// Token masks for the configurations of a sequence. Called by GrammarMatcher.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "llm/grammar/matching/configurations.h"
#include "llm/grammar/matching/mask_cache.h"
#include "llm/grammar/matching/token_vocabulary.h"

namespace vesper {

// Thread-safe.
class GrammarMaskFiller {
 public:
  GrammarMaskFiller(const GrammarAutomaton& automaton, const TokenVocabulary& vocabulary);

  // Sets the bits of the tokens whose bytes may follow; the others must be 0. `bits`: [n_words].
  // Adds nodes to `arena`, which has those of `set`. `drops_space`: without the space that a token
  // begins with.
  void fill(StackArena& arena, const ConfigurationSet& set, bool drops_space,
            std::span<uint32_t> bits);
  // The same by moving all configurations through the vocabulary, without the cache: slower by a
  // factor of a hundred and more, for grammars that are too ambiguous for it.
  void fill_without_cache(const StackArena& arena, const ConfigurationSet& set, bool drops_space,
                          std::span<uint32_t> bits);

 private:
  struct Continuation {
    uint32_t local, node;
  };
  // Where a stack goes on after the end of a rule.
  struct AfterRule {
    std::vector<Continuation> continuations;
    ByteSet first_bytes;
  };

  void add_tokens(uint32_t node);
  void replace_tokens_with_space(const ConfigurationSet& set);
  void add_tokens(const StateMasks& masks);
  void add_counted_tokens(const StateMasks& masks, uint64_t most);
  bool add_counted(const Configuration& one);
  void add_plain(const Configuration& one);
  void walk_all(const Configuration& one);
  void follow_exits(const StateMasks& masks, uint32_t node);
  void follow_counted_exits(const StateMasks& masks, const StackArena::Edge& edge);
  const AfterRule& after_rule(uint32_t node);
  void follow(uint32_t trie_node, const AfterRule& after);
  void walk(uint32_t first, uint32_t end, uint32_t local, uint32_t node);

  const GrammarAutomaton& automaton_;
  const TokenVocabulary& vocabulary_;
  std::mutex mutex_;  // of all below
  GrammarMaskCache cache_;
  ConfigurationStepper stepper_;
  // Of the current call.
  StackArena* arena_ = nullptr;
  std::span<uint32_t> bits_;
  std::deque<AfterRule> after_rules_;
  size_t n_after_rules_ = 0;
  std::vector<uint32_t> after_rule_of_;             // by node; kNone
  std::vector<std::vector<uint32_t>> walk_states_;  // by level of walks within walks, by depth
  size_t walk_level_ = 0;
  size_t n_visits_ = 0;  // of trie nodes by walk()
  bool gives_up_ = false;
  ConfigurationSet scratch_;
  std::vector<StackArena::Edge> edge_scratch_;
};

}  // namespace vesper
