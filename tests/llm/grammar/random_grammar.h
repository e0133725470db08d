// Random grammars in the notation of gbnf.h, and a recognizer of their texts by Earley's algorithm:
// slow, over bytes, and without any code of llm/grammar.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vesper {

struct GrammarPart {
  enum Kind { kLiteral, kClass, kReference, kAlternatives, kSequence, kRepeat } kind;
  std::string text = {};                                // kLiteral
  std::vector<std::pair<uint32_t, uint32_t>> set = {};  // kClass, code points
  bool negated = false;                                 // kClass
  size_t rule = 0;                                      // kReference
  std::vector<GrammarPart> parts = {};                  // kRepeat: one
  uint32_t min = 0, max = 0;                            // kRepeat
  static constexpr uint32_t kUnbounded = UINT32_MAX;
};

using RandomGrammar = std::vector<GrammarPart>;  // rule 0 is the root

RandomGrammar random_grammar(std::mt19937& random);
// Characters of random grammars, as UTF-8.
const std::vector<std::string>& grammar_alphabet();
std::string gbnf_of(const RandomGrammar& grammar, std::mt19937& random);
// A rule that the root reaches begins with itself.
bool is_left_recursive(const RandomGrammar& grammar);

class EarleyRecognizer {
 public:
  explicit EarleyRecognizer(const RandomGrammar& grammar);

  bool admits_some_text() const { return admits_some_text_; }
  // Appends a byte. False if no text of the grammar goes on so; then the caller undoes it.
  bool advance(uint8_t byte);
  // Appends bytes, or returns false and changes nothing.
  bool advance(std::string_view bytes);
  void undo(size_t n_bytes) { sets_.resize(sets_.size() - n_bytes); }
  bool may_end() const;

 private:
  struct Symbol {
    enum Kind { kByte, kClass, kNonterminal } kind;
    size_t index;
  };
  struct Production {
    size_t left;
    std::vector<Symbol> right;
  };
  // `partial`: the bytes of a class's character so far, the last one lowest.
  struct Item {
    size_t production, dot, origin;
    uint32_t partial;
    bool operator==(const Item&) const = default;
  };

  size_t nonterminal_of(const GrammarPart& part);
  size_t new_nonterminal() { return n_nonterminals_++; }
  void add(size_t left, std::vector<Symbol> right) { all_.push_back({left, std::move(right)}); }
  void complete(std::vector<Item>& set);

  size_t n_nonterminals_ = 0;
  std::vector<Production> all_;
  std::vector<std::vector<size_t>> productions_of_;  // by nonterminal
  std::vector<bool> nullable_;                       // by nonterminal
  std::vector<GrammarPart> classes_;
  std::vector<std::vector<Item>> sets_;  // by position
  bool admits_some_text_ = false;
};

}  // namespace vesper
