#include "llm/grammar/rules/grammar.h"

#include <algorithm>

#include "error/error.h"

namespace vesper {

namespace {

void require(bool holds, const char* expected) {
  if (!holds) throw Error(ErrorKind::kInternal, std::string("grammar: expected ") + expected);
}

}  // namespace

uint32_t Grammar::add(GrammarNode node) {
  if (nodes_.size() >= kMaxNodes)
    throw Error(ErrorKind::kUsage, setting_,
                "expected at most " + std::to_string(kMaxNodes) + " nodes in the syntax tree");
  nodes_.push_back(node);
  return uint32_t(nodes_.size() - 1);
}

void Grammar::check_nodes(std::span<const uint32_t> children) const {
  for (uint32_t child : children) require(child < nodes_.size(), "an earlier node");
}

uint32_t Grammar::add_with_children(GrammarNode node, std::span<const uint32_t> children) {
  check_nodes(children);
  node.first = uint32_t(children_.size());
  node.count = uint32_t(children.size());
  // A sequence of its own, because `children` may be a part of children_.
  const std::vector<uint32_t> copy(children.begin(), children.end());
  children_.insert(children_.end(), copy.begin(), copy.end());
  return add(node);
}

uint32_t Grammar::empty() { return add({.kind = GrammarNodeKind::kEmpty}); }

uint32_t Grammar::literal(std::string_view bytes) {
  const auto first = uint32_t(bytes_.size());
  bytes_ += bytes;
  return add({.kind = GrammarNodeKind::kLiteral, .first = first, .count = uint32_t(bytes.size())});
}

uint32_t Grammar::character_class(std::span<const CodePointRange> ranges, bool negated) {
  uint32_t next = 0;  // the first code point that may still match
  const auto first = uint32_t(ranges_.size());
  if (!negated) {
    for (const auto& range : ranges) {
      require(range.first <= range.last && range.last <= 0x10FFFF, "a range of code points");
      ranges_.push_back(range);
    }
  } else {
    std::vector<CodePointRange> sorted(ranges.begin(), ranges.end());
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& range : sorted) {
      require(range.first <= range.last && range.last <= 0x10FFFF, "a range of code points");
      if (range.first > next) ranges_.push_back({next, range.first - 1});
      next = std::max(next, range.last + 1);
    }
    if (next <= 0x10FFFF) ranges_.push_back({next, 0x10FFFF});
  }
  return add(
      {.kind = GrammarNodeKind::kClass, .first = first, .count = uint32_t(ranges_.size()) - first});
}

uint32_t Grammar::reference(uint32_t rule) {
  require(rule < rules_.size(), "a rule of the grammar");
  return add({.kind = GrammarNodeKind::kRule, .rule = rule});
}

uint32_t Grammar::sequence(std::span<const uint32_t> children) {
  return add_with_children({.kind = GrammarNodeKind::kSequence}, children);
}

uint32_t Grammar::choice(std::span<const uint32_t> children) {
  return add_with_children({.kind = GrammarNodeKind::kChoice}, children);
}

uint32_t Grammar::repeat(uint32_t child, uint32_t min, uint32_t max) {
  check_nodes({&child, 1});
  require(min <= max && min != kUnbounded, "a count of repetitions up to a higher one");
  return add({.kind = GrammarNodeKind::kRepeat, .min = min, .max = max, .child = child});
}

uint32_t Grammar::any_order(std::span<const uint32_t> children, uint32_t n_required,
                            uint32_t separator, uint32_t extra, uint32_t min, uint32_t max) {
  require(n_required <= children.size() && n_required <= max,
          "at most all children to be required");
  require(min <= max && max > 0, "a count of children up to a higher one");
  check_nodes({&separator, 1});
  if (extra != kNone) check_nodes({&extra, 1});
  return add_with_children({.kind = GrammarNodeKind::kAnyOrder,
                            .min = min,
                            .max = max,
                            .required = n_required,
                            .separator = separator,
                            .extra = extra},
                           children);
}

uint32_t Grammar::automaton(ByteAutomaton automaton) {
  for (const auto& state : automaton.states)
    for (const auto& edge : state.edges)
      require(edge.to < automaton.states.size(), "edges to states of the automaton");
  automata_.push_back(std::move(automaton));
  return add({.kind = GrammarNodeKind::kAutomaton, .first = uint32_t(automata_.size() - 1)});
}

uint32_t Grammar::add_rule(std::string name, std::string place) {
  rules_.push_back({std::move(name), std::move(place), kNone});
  return uint32_t(rules_.size() - 1);
}

void Grammar::define(uint32_t rule, uint32_t node, std::string place) {
  require(rule < rules_.size(), "a rule of the grammar");
  check_nodes({&node, 1});
  rules_[rule].node = node;
  if (!place.empty()) rules_[rule].place = std::move(place);
}

void Grammar::set_root(uint32_t rule) {
  require(rule < rules_.size(), "a rule of the grammar");
  root_ = rule;
}

std::string_view Grammar::bytes(const GrammarNode& node) const {
  return std::string_view(bytes_).substr(node.first, node.count);
}

std::span<const CodePointRange> Grammar::ranges(const GrammarNode& node) const {
  return std::span(ranges_).subspan(node.first, node.count);
}

std::span<const uint32_t> Grammar::children(const GrammarNode& node) const {
  return std::span(children_).subspan(node.first, node.count);
}

}  // namespace vesper
