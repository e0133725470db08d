// The syntax tree of a grammar, from which llm/grammar makes the tokens that a text may go on with.
// In: calls of its reader (GBNF in gbnf.h, JSON Schema and regular expressions in theirs). Out:
// nodes in flat vectors, read by CompiledGrammar.
//
// Nodes refer to earlier nodes only, so the tree of a rule is acyclic; recursion goes through
// reference(). A node may be used in several places: share what repeats, such as the characters of
// a JSON string, because a rule and the body of a repetition are compiled once per node.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vesper {

// Code points from `first` to `last`, both included, at most 0x10FFFF. Surrogates never match,
// because UTF-8 does not encode them.
struct CodePointRange {
  uint32_t first = 0, last = 0;
  bool operator==(const CodePointRange&) const = default;
};

enum class GrammarNodeKind : uint8_t {
  kEmpty,      // the empty text
  kLiteral,    // bytes, usually UTF-8
  kClass,      // one code point
  kRule,       // what a rule matches
  kSequence,   // all children, in this order
  kChoice,     // one of the children
  kRepeat,     // a child, `min` to `max` times
  kAnyOrder,   // children in any order, each at most once
  kAutomaton,  // the texts of an automaton over bytes
};

// An automaton over bytes, from a reader that has one already. State 0 is the start.
struct ByteAutomaton {
  struct Edge {
    uint8_t first, last;  // bytes, both included
    uint32_t to;
  };
  struct State {
    std::vector<Edge> edges;
    bool accepts = false;
  };
  std::vector<State> states;  // none: no text at all
};

struct GrammarNode {
  GrammarNodeKind kind = GrammarNodeKind::kEmpty;
  // A part of Grammar::bytes (kLiteral), ranges (kClass) or children (kSequence, kChoice and
  // kAnyOrder), or the index of an automaton.
  uint32_t first = 0, count = 0;
  uint32_t rule = 0;          // kRule
  uint32_t min = 0, max = 0;  // kRepeat and kAnyOrder; max may be kUnbounded
  uint32_t child = 0;         // kRepeat
  uint32_t required = 0;      // kAnyOrder: so many of the first children must occur
  uint32_t separator = 0;     // kAnyOrder: between two children
  uint32_t extra = 0;         // kAnyOrder: may occur any number of times; kNone
};

struct GrammarRule {
  std::string name;   // for messages
  std::string place;  // for messages, such as "line 3, column 1"; may be empty
  uint32_t node;      // kNone until define()
};

class Grammar {
 public:
  static constexpr uint32_t kUnbounded = UINT32_MAX;
  static constexpr uint32_t kNone = UINT32_MAX;

  // `setting`: the name of the setting in errors about this grammar.
  explicit Grammar(std::string setting = "grammar") : setting_(std::move(setting)) {}

  // Each of these returns the index of a new node. Errors: Error(kUsage) if the grammar has more
  // than kMaxNodes nodes; Error(kInternal) if an argument is not an earlier node or rule.
  uint32_t empty();
  uint32_t literal(std::string_view bytes);
  // One code point inside of the ranges, or with `negated` outside of all of them. Without ranges
  // it matches nothing, or with `negated` any code point. Throws Error(kInternal) if a range is
  // reversed or beyond 0x10FFFF.
  uint32_t character_class(std::span<const CodePointRange> ranges, bool negated = false);
  uint32_t reference(uint32_t rule);
  uint32_t sequence(std::span<const uint32_t> children);  // of none: the empty text
  uint32_t choice(std::span<const uint32_t> children);    // of none: matches nothing
  // min <= max. Counts of any size cost the same: large ones are counted at run time.
  uint32_t repeat(uint32_t child, uint32_t min, uint32_t max = kUnbounded);
  // The children in any order and each at most once, with `separator` between two of them. The
  // first `n_required` must occur. `extra`, unless kNone, is one more child that may occur any
  // number of times. Matches the empty text if nothing is required. Neither a child nor `extra`
  // may match the empty text. `min` to `max` of the children occur, those of `extra` not counted;
  // max > 0. The state at run time is one bit per child.
  uint32_t any_order(std::span<const uint32_t> children, uint32_t n_required, uint32_t separator,
                     uint32_t extra = kNone, uint32_t min = 0, uint32_t max = kUnbounded);
  // Throws Error(kInternal) if an edge leads to no state.
  uint32_t automaton(ByteAutomaton automaton);

  uint32_t character_class(std::initializer_list<CodePointRange> ranges, bool negated = false) {
    return character_class(std::span(ranges.begin(), ranges.size()), negated);
  }
  uint32_t sequence(std::initializer_list<uint32_t> children) {
    return sequence(std::span(children.begin(), children.size()));
  }
  uint32_t choice(std::initializer_list<uint32_t> children) {
    return choice(std::span(children.begin(), children.size()));
  }

  // A rule may be referred to before it is defined. Returns its index.
  uint32_t add_rule(std::string name, std::string place = "");
  // `place`, unless empty, replaces that of add_rule().
  void define(uint32_t rule, uint32_t node, std::string place = "");
  // The rule that whole texts match. The first rule, unless set.
  void set_root(uint32_t rule);

  uint32_t root() const { return root_; }
  const std::string& setting() const { return setting_; }
  std::span<const GrammarNode> nodes() const { return nodes_; }
  std::span<const GrammarRule> rules() const { return rules_; }
  std::string_view bytes(const GrammarNode& node) const;
  std::span<const CodePointRange> ranges(const GrammarNode& node) const;
  std::span<const uint32_t> children(const GrammarNode& node) const;
  const ByteAutomaton& automaton(const GrammarNode& node) const { return automata_[node.first]; }

  static constexpr uint32_t kMaxNodes = 1u << 20;

 private:
  uint32_t add(GrammarNode node);
  void check_nodes(std::span<const uint32_t> children) const;
  uint32_t add_with_children(GrammarNode node, std::span<const uint32_t> children);

  std::string setting_;
  std::vector<GrammarNode> nodes_;
  std::vector<GrammarRule> rules_;
  std::string bytes_;
  std::vector<CodePointRange> ranges_;
  std::vector<uint32_t> children_;
  std::vector<ByteAutomaton> automata_;
  uint32_t root_ = 0;
};

}  // namespace vesper
