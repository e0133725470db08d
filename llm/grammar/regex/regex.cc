#include "llm/grammar/regex/regex.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "error/error.h"

namespace vesper {
namespace {

constexpr size_t kMaxNfaStates = 100'000;
// Limits the time: states of the nondeterministic automaton, summed over the sets of them.
constexpr size_t kMaxSubsetWork = 10'000'000;

bool has_anchor(const RegexNode& regex) {
  return regex.kind == RegexNodeKind::kStart || regex.kind == RegexNodeKind::kEnd ||
         std::any_of(regex.children.begin(), regex.children.end(), has_anchor);
}

using StateSet = std::vector<uint32_t>;  // sorted

// Nondeterministic automaton, built as Thompson's.
class Nfa {
 public:
  Nfa(const RegexNode& regex, bool is_search) {
    start_ = add_state();
    done_ = add_state();
    const uint32_t end = add(regex, start_state_of(is_search));
    states_[end].empty.push_back({done_, Guard::kNone});
    if (is_search) states_[done_].edges.push_back({&all_code_points(), done_});
    absorbs_ = is_search;
  }

  TextDfa determinized();

 private:
  enum class Guard : uint8_t { kNone, kStart, kEnd };
  struct EmptyEdge {
    uint32_t to;
    Guard guard;  // an anchor
  };
  struct ClassEdge {
    const CodePoints* set;  // of the RegexNode
    uint32_t to;
  };
  struct State {
    std::vector<EmptyEdge> empty;
    std::vector<ClassEdge> edges;
  };

  uint32_t add_state() {
    if (states_.size() >= kMaxNfaStates) throw_too_large();
    states_.emplace_back();
    return static_cast<uint32_t>(states_.size() - 1);
  }

  [[noreturn]] static void throw_too_large() {
    throw Error(
        ErrorKind::kUsage,
        "expected a pattern with fewer states: repetitions of repetitions or of many ranges "
        "of characters are too many");
  }

  // A search may begin at any character.
  uint32_t start_state_of(bool is_search) {
    if (is_search) states_[start_].edges.push_back({&all_code_points(), start_});
    return start_;
  }

  // Adds states after `from`, and returns the last one.
  uint32_t add(const RegexNode& regex, uint32_t from) {
    switch (regex.kind) {
      case RegexNodeKind::kClass: {
        const uint32_t to = add_state();
        states_[from].edges.push_back({&regex.set, to});
        return to;
      }
      case RegexNodeKind::kSequence:
        for (const RegexNode& child : regex.children) from = add(child, from);
        return from;
      case RegexNodeKind::kChoice: {
        const uint32_t to = add_state();
        for (const RegexNode& child : regex.children) {
          const uint32_t branch = add_state();
          states_[from].empty.push_back({branch, Guard::kNone});
          const uint32_t end = add(child, branch);
          states_[end].empty.push_back({to, Guard::kNone});
        }
        return to;
      }
      case RegexNodeKind::kRepeat:
        return add_repeat(regex, from);
      case RegexNodeKind::kStart:
      case RegexNodeKind::kEnd: {
        const uint32_t to = add_state();
        states_[from].empty.push_back(
            {to, regex.kind == RegexNodeKind::kStart ? Guard::kStart : Guard::kEnd});
        return to;
      }
    }
    return from;
  }

  uint32_t add_repeat(const RegexNode& regex, uint32_t from) {
    const RegexNode& child = regex.children.front();
    for (uint32_t i = 0; i < regex.min; ++i) {
      from = add(child, from);
      add_work(1);
    }
    if (regex.max == kNoLimit) {
      const uint32_t loop = add_state();
      states_[from].empty.push_back({loop, Guard::kNone});
      const uint32_t end = add(child, loop);
      states_[end].empty.push_back({loop, Guard::kNone});
      return loop;
    }
    const uint32_t to = add_state();
    for (uint32_t i = regex.min; i < regex.max; ++i) {
      states_[from].empty.push_back({to, Guard::kNone});
      from = add(child, from);
      add_work(1);
    }
    states_[from].empty.push_back({to, Guard::kNone});
    return to;
  }

  void add_work(size_t n) {
    work_ += n;
    if (work_ > kMaxSubsetWork) throw_too_large();
  }

  // The states that can be reached without a character.
  StateSet closure(StateSet set, bool at_start, bool at_end) {
    std::vector<uint32_t> pending = set;
    mark_.resize(states_.size());
    for (const uint32_t state : set) mark_[state] = true;
    while (!pending.empty()) {
      const State& state = states_[pending.back()];
      pending.pop_back();
      add_work(1 + state.empty.size());
      for (const EmptyEdge& edge : state.empty) {
        if (mark_[edge.to] || (edge.guard == Guard::kStart && !at_start) ||
            (edge.guard == Guard::kEnd && !at_end)) {
          continue;
        }
        mark_[edge.to] = true;
        set.push_back(edge.to);
        pending.push_back(edge.to);
      }
    }
    for (const uint32_t state : set) mark_[state] = false;
    // Whatever follows a match, the text has one.
    if (absorbs_ && std::find(set.begin(), set.end(), done_) != set.end()) return {done_};
    std::sort(set.begin(), set.end());
    return set;
  }

  bool contains_done(const StateSet& set) const {
    return std::binary_search(set.begin(), set.end(), done_);
  }

  std::vector<State> states_;
  uint32_t start_ = 0, done_ = 0;
  bool absorbs_ = false;
  size_t work_ = 0;
  std::vector<bool> mark_;
};

TextDfa Nfa::determinized() {
  TextDfa dfa;
  std::map<StateSet, uint32_t> numbers, numbers_of_targets;
  std::vector<StateSet> order;
  const auto number_of = [&](StateSet set) {
    const auto [found, is_new] = numbers.emplace(set, static_cast<uint32_t>(order.size()));
    if (is_new) {
      if (order.size() >= kMaxDfaStates) throw_too_large();
      order.push_back(std::move(set));
    }
    return found->second;
  };
  // The start has a number of its own, because ^ holds only there.
  order.push_back(closure({start_}, true, false));
  size_t n_edges = 0;
  for (size_t n = 0; n < order.size(); ++n) {
    const StateSet set = order[n];
    TextDfa::State state;
    state.accepts = contains_done(closure(set, n == 0, true));
    // Ranges begin and end at these code points.
    struct Event {
      uint32_t at;
      bool begins;
      uint32_t to;
    };
    std::vector<Event> events;
    for (const uint32_t from : set) {
      for (const ClassEdge& edge : states_[from].edges) {
        for (const CodePointRange& range : *edge.set) {
          events.push_back({range.first, true, edge.to});
          events.push_back({range.last + 1, false, edge.to});
        }
      }
    }
    std::sort(events.begin(), events.end(),
              [](const Event& a, const Event& b) { return a.at < b.at; });
    std::map<uint32_t, uint32_t> active;  // targets, and how many ranges lead there
    for (size_t i = 0; i < events.size();) {
      const uint32_t at = events[i].at;
      for (; i < events.size() && events[i].at == at; ++i) {
        if (events[i].begins) {
          ++active[events[i].to];
        } else if (--active[events[i].to] == 0) {
          active.erase(events[i].to);
        }
      }
      if (active.empty()) continue;
      StateSet targets;
      for (const auto& [to, count] : active) targets.push_back(to);
      add_work(targets.size());
      auto known = numbers_of_targets.find(targets);
      if (known == numbers_of_targets.end()) {
        const uint32_t number = number_of(closure(targets, false, false));
        known = numbers_of_targets.emplace(std::move(targets), number).first;
      }
      state.edges.push_back({at, events[i].at - 1, known->second});
    }
    n_edges += state.edges.size();
    if (n_edges > kMaxDfaEdges) throw_too_large();
    dfa.states.push_back(std::move(state));
  }
  return trimmed(dfa);
}

}  // namespace

bool has_outer_anchors_only(const RegexNode& regex, bool both) {
  if (regex.kind == RegexNodeKind::kChoice) {
    return std::all_of(regex.children.begin(), regex.children.end(),
                       [&](const RegexNode& child) { return has_outer_anchors_only(child, both); });
  }
  if (regex.kind != RegexNodeKind::kSequence) return !both && !has_anchor(regex);
  const auto& children = regex.children;
  if (children.size() == 1 && children[0].kind != RegexNodeKind::kStart &&
      children[0].kind != RegexNodeKind::kEnd) {
    return has_outer_anchors_only(children[0], both);
  }
  size_t begin = 0, end = children.size();
  if (begin < end && children[begin].kind == RegexNodeKind::kStart) ++begin;
  if (begin < end && children[end - 1].kind == RegexNodeKind::kEnd) --end;
  if (both && (begin == 0 || end == children.size())) return false;
  return std::none_of(children.begin() + static_cast<ptrdiff_t>(begin),
                      children.begin() + static_cast<ptrdiff_t>(end), has_anchor);
}

TextDfa texts_with_match(const RegexNode& regex) { return Nfa(regex, true).determinized(); }

TextDfa texts_that_match(const RegexNode& regex) { return Nfa(regex, false).determinized(); }

uint32_t add_regex(Grammar& grammar, const RegexNode& regex, TextSpelling spelling) {
  std::vector<uint32_t> children;
  const auto add_children = [&] {
    for (const RegexNode& child : regex.children)
      children.push_back(add_regex(grammar, child, spelling));
  };
  switch (regex.kind) {
    case RegexNodeKind::kClass:
      return add_characters(grammar, regex.set, spelling);
    case RegexNodeKind::kSequence:
      add_children();
      return grammar.sequence(children);
    case RegexNodeKind::kChoice:
      add_children();
      return grammar.choice(children);
    case RegexNodeKind::kRepeat:
      add_children();
      return grammar.repeat(children[0], regex.min,
                            regex.max == kNoLimit ? Grammar::kUnbounded : regex.max);
    case RegexNodeKind::kStart:
    case RegexNodeKind::kEnd:
      break;
  }
  return grammar.empty();
}

Grammar grammar_of_regex(std::string_view pattern) {
  const std::string setting = "regex";
  try {
    Grammar grammar(setting);
    const uint32_t root = grammar.add_rule("root");
    const RegexNode regex = parse_regex(pattern);
    if (has_outer_anchors_only(regex, false)) {
      grammar.define(root, add_regex(grammar, regex, TextSpelling::kPlain));
      return grammar;
    }
    const TextDfa dfa = texts_that_match(regex);
    if (dfa.is_empty()) throw Error(ErrorKind::kUsage, "no text matches the pattern");
    grammar.define(root, add_texts(grammar, dfa, TextSpelling::kPlain));
    return grammar;
  } catch (const Error& error) {
    if (!error.setting().empty()) throw;
    throw Error(error.kind(), setting, error.what());
  }
}

}  // namespace vesper
