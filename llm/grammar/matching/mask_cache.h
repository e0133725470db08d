// The parts of token masks that depend on a state of the automaton and not on the stack, computed
// when first needed. Called by GrammarMaskFiller.
//
// A token that stays within the rule of a state is allowed whatever follows the rule. A token that
// goes beyond the end of the rule is found in a table of exits and checked against the stack.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "llm/grammar/automaton/automaton.h"
#include "llm/grammar/matching/configurations.h"
#include "llm/grammar/matching/token_vocabulary.h"

namespace vesper {

class ByteSet {
 public:
  bool has(uint8_t byte) const { return words_[byte / 64] >> (byte % 64) & 1; }
  void add(uint8_t byte) { words_[byte / 64] |= uint64_t{1} << (byte % 64); }
  void add(uint8_t first, uint8_t last) {
    for (uint32_t byte = first; byte <= last; ++byte) add(uint8_t(byte));
  }
  ByteSet& operator|=(const ByteSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
    return *this;
  }
  bool meets(const ByteSet& other) const {
    uint64_t common = 0;
    for (size_t i = 0; i < words_.size(); ++i) common |= words_[i] & other.words_[i];
    return common != 0;
  }

 private:
  std::array<uint64_t, 4> words_{};
};

// What tokens do from a state on.
struct StateMasks {
  // The walk took too many local states, or more exits than are worth a table: the matcher walks
  // its own stacks instead.
  bool is_too_large = false;
  // Tokens that stay within the rule, or within a counted body and its repetitions. Many as a mask
  // [n_words] with their number, few as ids.
  std::vector<uint32_t> mask;
  std::vector<int32_t> tokens;
  // Counted bodies only: `tokens` has all of them, ordered by how many further repetitions they
  // begin or complete; first_of_count[n] is the first that needs n or more of them.
  std::vector<uint32_t> first_of_count;
  // Trie nodes whose byte follows the end of the rule and does not continue it, ordered by byte:
  // those for `byte` are exits[first .. first of the next entry). For counted bodies, `ended` has
  // the number of bodies that ended before the byte.
  struct ExitByte {
    uint8_t byte;
    uint32_t first;
  };
  std::vector<ExitByte> exit_bytes;
  std::vector<uint32_t> exits;
  std::vector<uint16_t> ended;
  // Bytes that both continue the rule and follow an end of it. If the stack goes on with one of
  // them too, the exit table is not enough.
  ByteSet ambiguous;
};

// Not thread-safe.
class GrammarMaskCache {
 public:
  GrammarMaskCache(const GrammarAutomaton& automaton, const TokenVocabulary& vocabulary);

  // Frees memory if the cache has become large. Invalidates all that the other functions returned.
  void limit_memory();

  // The local states: configurations with stacks that begin at one rule. State 0 has none.
  static constexpr uint32_t kDead = 0;
  uint32_t local_start(uint32_t state);  // about to read a byte in this state of the automaton
  uint32_t next(uint32_t local, uint8_t byte) {
    const uint32_t known = next_[size_t(local) * 256 + byte];
    return known != kUnknown ? known : compute_next(local, byte);
  }
  bool ends(uint32_t local) const { return ends_[local]; }  // the rule may end here
  const ByteSet& first_bytes(uint32_t local) const { return first_bytes_[local]; }
  bool has_too_many_states() const { return ends_.size() > kMostLocalStates; }

  // By a state of the automaton, which has byte edges.
  const StateMasks& masks_of(uint32_t state);
  // For a state of a counted body, which ends only where nothing continues it: the rule begins anew
  // at its end. is_too_large for other bodies.
  const StateMasks& counted_masks_of(uint32_t state, uint32_t body);

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;
  static constexpr size_t kMostLocalStates = 1 << 16;

  uint32_t index_of(const ConfigurationSet& set);
  uint32_t compute_next(uint32_t local, uint8_t byte);
  uint32_t local_start_of_rule(uint32_t rule);
  // body: local state at the begin of the counted body, or kDead for a plain rule.
  StateMasks compute_masks(uint32_t local, uint32_t body);

  const GrammarAutomaton& automaton_;
  const TokenVocabulary& vocabulary_;
  ConfigurationStepper stepper_;
  StackArena arena_;
  std::vector<ConfigurationSet> sets_;  // by local state, as are the next three
  std::vector<uint8_t> ends_;
  std::vector<ByteSet> first_bytes_;
  std::vector<uint32_t> next_;  // [n_local * 256]
  std::unordered_map<uint64_t, std::vector<uint32_t>> by_hash_;
  std::unordered_map<uint32_t, uint32_t> starts_;       // by byte class
  std::unordered_map<uint32_t, uint32_t> rule_starts_;  // by rule
  std::unordered_map<uint64_t, StateMasks> masks_;      // by byte class and counted body
  size_t masks_bytes_ = 0;
  ConfigurationSet scratch_;
};

}  // namespace vesper
