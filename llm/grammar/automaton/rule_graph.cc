#include "llm/grammar/automaton/rule_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>

namespace vesper {

namespace {

using ByteEdge = GrammarAutomaton::ByteEdge;
using Call = GrammarAutomaton::Call;
using StateSet = std::vector<uint32_t>;

struct StateSetHash {
  size_t operator()(const StateSet& set) const {
    size_t hash = set.size();
    for (uint32_t state : set) hash = (hash ^ state) * 0x9E3779B97F4A7C15u;
    return hash;
  }
};

// Sets of states that are reached together.
class SubsetConstruction {
 public:
  explicit SubsetConstruction(const RuleNfa& nfa) : nfa_(nfa), seen_(nfa.states.size(), 0) {}

  std::optional<RuleGraph> run(size_t most_states) {
    RuleGraph graph;
    index_of(closure({0}), graph);
    for (size_t i = 0; i < graph.states.size(); ++i) {
      if (graph.states.size() > most_states) return std::nullopt;
      expand(i, graph);
    }
    return graph;
  }

  // The states that the empty edges of `from` lead to and that have a meaning of their own.
  StateSet closure(const StateSet& from) {
    ++round_;
    StateSet reached;
    pending_ = from;
    while (!pending_.empty()) {
      const uint32_t state = pending_.back();
      pending_.pop_back();
      if (seen_[state] == round_) continue;
      seen_[state] = round_;
      const auto& one = nfa_.states[state];
      if (state == 1 || !one.edges.empty() || !one.calls.empty()) reached.push_back(state);
      pending_.insert(pending_.end(), one.empty.begin(), one.empty.end());
    }
    std::sort(reached.begin(), reached.end());
    return reached;
  }

 private:
  uint32_t index_of(StateSet set, RuleGraph& graph) {
    const auto [place, is_new] = indices_.try_emplace(std::move(set), graph.states.size());
    if (is_new) {
      graph.states.emplace_back();
      graph.states.back().accepts =
          std::binary_search(place->first.begin(), place->first.end(), 1u);
      sets_.push_back(&place->first);
    }
    return uint32_t(place->second);
  }

  void expand(size_t i, RuleGraph& graph) {
    const StateSet& set = *sets_[i];
    std::vector<ByteEdge> edges;
    std::map<uint32_t, StateSet> calls;
    for (uint32_t state : set) {
      const auto& one = nfa_.states[state];
      edges.insert(edges.end(), one.edges.begin(), one.edges.end());
      for (const auto& call : one.calls) calls[call.rule].push_back(call.then);
    }
    std::vector<uint32_t> cuts;
    for (const auto& edge : edges) {
      cuts.push_back(edge.first);
      cuts.push_back(edge.last + 1u);
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<ByteEdge> result;
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
      StateSet targets;
      for (const auto& edge : edges)
        if (edge.first <= cuts[c] && edge.last >= cuts[c]) targets.push_back(edge.target);
      if (targets.empty()) continue;
      const uint32_t target = index_of(closure(targets), graph);
      const auto last = uint8_t(cuts[c + 1] - 1);
      if (!result.empty() && result.back().target == target && result.back().last + 1u == cuts[c])
        result.back().last = last;
      else
        result.push_back({uint8_t(cuts[c]), last, target});
    }
    std::vector<Call> result_calls;
    for (const auto& [rule, then] : calls)
      result_calls.push_back({rule, index_of(closure(then), graph)});
    graph.states[i].edges = std::move(result);
    graph.states[i].calls = std::move(result_calls);
  }

  const RuleNfa& nfa_;
  std::vector<uint32_t> seen_;  // by state, the round that reached it
  uint32_t round_ = 0;
  StateSet pending_;
  std::unordered_map<StateSet, size_t, StateSetHash> indices_;
  std::vector<const StateSet*> sets_;  // by state of the graph
};

// Every state of `nfa` with the edges of the states that its empty edges lead to.
RuleGraph nondeterministic(const RuleNfa& nfa, SubsetConstruction& construction) {
  RuleGraph graph;
  graph.states.resize(nfa.states.size());
  for (uint32_t i = 0; i < nfa.states.size(); ++i) {
    auto& state = graph.states[i];
    for (uint32_t reached : construction.closure({i})) {
      const auto& one = nfa.states[reached];
      state.edges.insert(state.edges.end(), one.edges.begin(), one.edges.end());
      state.calls.insert(state.calls.end(), one.calls.begin(), one.calls.end());
      state.accepts = state.accepts || reached == 1;
    }
    std::sort(state.edges.begin(), state.edges.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first, a.last, a.target) < std::tie(b.first, b.last, b.target);
    });
    std::sort(state.calls.begin(), state.calls.end(), [](const auto& a, const auto& b) {
      return std::tie(a.rule, a.then) < std::tie(b.rule, b.then);
    });
  }
  return graph;
}

// Keeps the states with keep[state], renumbered in their order.
void keep_states(RuleGraph& graph, const std::vector<bool>& keep) {
  std::vector<uint32_t> number(graph.states.size());
  uint32_t n = 0;
  for (size_t i = 0; i < keep.size(); ++i)
    if (keep[i]) number[i] = n++;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (!keep[i]) continue;
    auto& state = graph.states[i];
    std::erase_if(state.edges, [&](const auto& edge) { return !keep[edge.target]; });
    std::erase_if(state.calls, [&](const auto& call) { return !keep[call.then]; });
    for (auto& edge : state.edges) edge.target = number[edge.target];
    for (auto& call : state.calls) call.then = number[call.then];
    if (number[i] != i) graph.states[number[i]] = std::move(state);
  }
  graph.states.resize(n);
}

std::vector<bool> reached_from(const std::vector<std::vector<uint32_t>>& targets,
                               std::vector<uint32_t> pending) {
  std::vector<bool> reached(targets.size());
  for (uint32_t state : pending) reached[state] = true;
  while (!pending.empty()) {
    const uint32_t state = pending.back();
    pending.pop_back();
    for (uint32_t target : targets[state])
      if (!reached[target]) {
        reached[target] = true;
        pending.push_back(target);
      }
  }
  return reached;
}

}  // namespace

RuleGraph remove_empty_edges(const RuleNfa& nfa) {
  if (auto graph = SubsetConstruction(nfa).run(4 * nfa.states.size() + 64)) return *graph;
  SubsetConstruction construction(nfa);
  return nondeterministic(nfa, construction);
}

bool trim(RuleGraph& graph, const std::vector<bool>& productive) {
  const size_t n = graph.states.size();
  std::vector<std::vector<uint32_t>> forward(n), backward(n);
  std::vector<uint32_t> ends;
  for (uint32_t i = 0; i < n; ++i) {
    auto& state = graph.states[i];
    std::erase_if(state.calls, [&](const auto& call) { return !productive[call.rule]; });
    for (const auto& edge : state.edges) forward[i].push_back(edge.target);
    for (const auto& call : state.calls) forward[i].push_back(call.then);
    for (uint32_t target : forward[i]) backward[target].push_back(i);
    if (state.accepts) ends.push_back(i);
  }
  auto keep = reached_from(forward, {0});
  const auto reaches_end = reached_from(backward, ends);
  for (size_t i = 0; i < n; ++i) keep[i] = keep[i] && reaches_end[i];
  const bool is_productive = keep[0];
  keep[0] = true;
  keep_states(graph, keep);
  return is_productive;
}

void merge_equal_states(RuleGraph& graph) {
  for (int round = 0; round < 8; ++round) {
    const size_t n = graph.states.size();
    std::vector<uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    const auto less_edge = [](const ByteEdge& a, const ByteEdge& b) {
      return std::tie(a.first, a.last, a.target) < std::tie(b.first, b.last, b.target);
    };
    const auto less_call = [](const Call& a, const Call& b) {
      return std::tie(a.rule, a.then) < std::tie(b.rule, b.then);
    };
    const auto before = [&](uint32_t i, uint32_t j) {
      const auto &a = graph.states[i], &b = graph.states[j];
      if (a.accepts != b.accepts) return b.accepts;
      if (a.edges != b.edges)
        return std::lexicographical_compare(a.edges.begin(), a.edges.end(), b.edges.begin(),
                                            b.edges.end(), less_edge);
      if (a.calls != b.calls)
        return std::lexicographical_compare(a.calls.begin(), a.calls.end(), b.calls.begin(),
                                            b.calls.end(), less_call);
      return i < j;
    };
    std::sort(order.begin(), order.end(), before);
    std::vector<uint32_t> same(n);  // the first state that is equal
    std::vector<bool> keep(n, true);
    bool merged = false;
    for (size_t k = 0; k < n; ++k) {
      const bool equal = k > 0 && graph.states[order[k]] == graph.states[order[k - 1]];
      same[order[k]] = equal ? same[order[k - 1]] : order[k];
      if (!equal) continue;
      keep[order[k]] = false;
      merged = true;
    }
    if (!merged) return;
    for (auto& state : graph.states) {
      for (auto& edge : state.edges) edge.target = same[edge.target];
      for (auto& call : state.calls) call.then = same[call.then];
      // Neighbouring edges that now lead to the same state become one.
      std::vector<ByteEdge> joined;
      for (const auto& edge : state.edges) {
        if (!joined.empty() && joined.back() == edge) continue;
        if (!joined.empty() && joined.back().target == edge.target &&
            joined.back().last + 1u == edge.first)
          joined.back().last = edge.last;
        else
          joined.push_back(edge);
      }
      state.edges = std::move(joined);
    }
    keep_states(graph, keep);
  }
}

}  // namespace vesper
