#include "llm/grammar/regex/text_dfa.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "error/error.h"
#include "llm/tokenizer/unicode/characters.h"

namespace vesper {
namespace {

constexpr uint32_t kNowhere = UINT32_MAX;

using Edge = TextDfa::Edge;
using State = TextDfa::State;

void check_size(size_t n_states, size_t n_edges) {
  if (n_states > kMaxDfaStates || n_edges > kMaxDfaEdges) {
    throw Error(ErrorKind::kUsage,
                "expected texts that an automaton of 20,000 states and 500,000 edges describes, "
                "found more");
  }
}

void add_edge(std::vector<Edge>& edges, Edge edge) {
  if (!edges.empty() && edges.back().to == edge.to && edges.back().last + 1 == edge.first) {
    edges.back().last = edge.last;
  } else {
    edges.push_back(edge);
  }
}

// Whether a text is accepted from each state.
std::vector<bool> useful_states(const TextDfa& dfa) {
  std::vector<std::vector<uint32_t>> sources(dfa.states.size());
  std::vector<uint32_t> pending;
  std::vector<bool> useful(dfa.states.size());
  for (uint32_t from = 0; from < dfa.states.size(); ++from) {
    for (const Edge& edge : dfa.states[from].edges) sources[edge.to].push_back(from);
    if (dfa.states[from].accepts) {
      useful[from] = true;
      pending.push_back(from);
    }
  }
  while (!pending.empty()) {
    const uint32_t state = pending.back();
    pending.pop_back();
    for (const uint32_t from : sources[state]) {
      if (useful[from]) continue;
      useful[from] = true;
      pending.push_back(from);
    }
  }
  return useful;
}

}  // namespace

bool TextDfa::accepts(std::string_view text) const {
  if (states.empty()) return false;
  uint32_t at = 0;
  for (size_t i = 0; i < text.size();) {
    const uint32_t c = next_character(text, i);
    const std::vector<Edge>& edges = states[at].edges;
    const auto edge = std::lower_bound(edges.begin(), edges.end(), c,
                                       [](const Edge& e, uint32_t x) { return e.last < x; });
    if (edge == edges.end() || edge->first > c) return false;
    at = edge->to;
  }
  return states[at].accepts;
}

TextDfa trimmed(const TextDfa& dfa) {
  TextDfa out;
  const std::vector<bool> useful = useful_states(dfa);
  if (dfa.is_empty() || !useful[0]) return out;
  std::vector<uint32_t> number(dfa.states.size(), kNowhere);
  std::vector<uint32_t> order = {0};
  number[0] = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    State state;
    state.accepts = dfa.states[order[i]].accepts;
    for (Edge edge : dfa.states[order[i]].edges) {
      if (!useful[edge.to]) continue;
      if (number[edge.to] == kNowhere) {
        number[edge.to] = static_cast<uint32_t>(order.size());
        order.push_back(edge.to);
      }
      edge.to = number[edge.to];
      add_edge(state.edges, edge);
    }
    out.states.push_back(std::move(state));
  }
  return out;
}

TextDfa texts_of(const CodePoints& set, LengthRange length) {
  TextDfa dfa;
  if (length.min > length.max) return dfa;
  const bool is_bounded = length.max != kNoLimit;
  const size_t last = is_bounded ? length.max : length.min;
  check_size(last, last * set.size());
  for (size_t i = 0; i <= last; ++i) {
    State state;
    state.accepts = i >= length.min;
    if (i < last || !is_bounded) {
      const auto to = static_cast<uint32_t>(std::min(i + 1, last));
      for (const CodePointRange& range : set) state.edges.push_back({range.first, range.last, to});
    }
    dfa.states.push_back(std::move(state));
  }
  return dfa;
}

TextDfa literal_texts(const std::vector<std::string_view>& texts) {
  std::vector<std::map<uint32_t, uint32_t>> trie(1);
  std::vector<bool> accepts(1);
  for (const std::string_view text : texts) {
    uint32_t at = 0;
    for (size_t i = 0; i < text.size();) {
      const uint32_t c = next_character(text, i);
      const auto found = trie[at].find(c);
      if (found != trie[at].end()) {
        at = found->second;
        continue;
      }
      const auto next = static_cast<uint32_t>(trie.size());
      check_size(trie.size(), trie.size());
      trie[at].emplace(c, next);
      trie.emplace_back();
      accepts.push_back(false);
      at = next;
    }
    accepts[at] = true;
  }
  TextDfa dfa;
  if (texts.empty()) return dfa;
  for (size_t i = 0; i < trie.size(); ++i) {
    State state;
    state.accepts = accepts[i];
    for (const auto& [c, to] : trie[i]) state.edges.push_back({c, c, to});
    dfa.states.push_back(std::move(state));
  }
  return dfa;
}

TextDfa intersection_of(const TextDfa& a, const TextDfa& b) {
  TextDfa product;
  if (a.is_empty() || b.is_empty()) return product;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers = {{{0, 0}, 0}};
  std::vector<std::pair<uint32_t, uint32_t>> order = {{0, 0}};
  size_t n_edges = 0;
  for (size_t n = 0; n < order.size(); ++n) {
    const State& x = a.states[order[n].first];
    const State& y = b.states[order[n].second];
    State state;
    state.accepts = x.accepts && y.accepts;
    for (size_t i = 0, j = 0; i < x.edges.size() && j < y.edges.size();) {
      const Edge& e = x.edges[i];
      const Edge& f = y.edges[j];
      const uint32_t first = std::max(e.first, f.first);
      const uint32_t last = std::min(e.last, f.last);
      if (first <= last) {
        const std::pair target{e.to, f.to};
        const auto [found, is_new] = numbers.emplace(target, static_cast<uint32_t>(order.size()));
        if (is_new) order.push_back(target);
        add_edge(state.edges, {first, last, found->second});
      }
      e.last < f.last ? ++i : ++j;
    }
    n_edges += state.edges.size();
    check_size(order.size(), n_edges);
    product.states.push_back(std::move(state));
  }
  return trimmed(product);
}

TextDfa union_of(const TextDfa& a, const TextDfa& b) {
  return complement_of(intersection_of(complement_of(a), complement_of(b)));
}

TextDfa complement_of(const TextDfa& dfa) {
  if (dfa.is_empty()) return texts_of(all_code_points());
  TextDfa out = dfa;
  const auto anything = static_cast<uint32_t>(out.states.size());
  out.states.push_back({});
  for (State& state : out.states) {
    state.accepts = !state.accepts;
    CodePoints used;
    for (const Edge& edge : state.edges) used.push_back({edge.first, edge.last});
    for (const CodePointRange& gap : complement_of(code_points_of(used)))
      state.edges.push_back({gap.first, gap.last, anything});
    std::sort(state.edges.begin(), state.edges.end(),
              [](const Edge& e, const Edge& f) { return e.first < f.first; });
  }
  return trimmed(out);
}

TextDfa with_length(const TextDfa& dfa, LengthRange length) {
  if (dfa.is_empty()) return dfa;
  const LengthRange has = lengths_of(dfa);
  if (has.min >= length.min && has.max <= length.max) return dfa;
  return intersection_of(dfa, texts_of(all_code_points(), length));
}

LengthRange lengths_of(const TextDfa& dfa) {
  // The shortest by a breadth-first search; the longest by depths in the order in which no state
  // has unseen sources. A cycle leaves states out.
  const size_t n = dfa.states.size();
  std::vector<uint32_t> shortest(n, kNoLimit), n_sources(n), longest(n);
  std::vector<uint32_t> order = {0};
  LengthRange lengths{kNoLimit, 0};
  shortest[0] = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const State& state = dfa.states[order[i]];
    if (state.accepts) lengths.min = std::min(lengths.min, shortest[order[i]]);
    for (const Edge& edge : state.edges) {
      ++n_sources[edge.to];
      if (shortest[edge.to] != kNoLimit) continue;
      shortest[edge.to] = shortest[order[i]] + 1;
      order.push_back(edge.to);
    }
  }
  const size_t n_reached = order.size();
  order.clear();
  if (n_sources[0] == 0) order.push_back(0);
  for (size_t i = 0; i < order.size(); ++i) {
    const State& state = dfa.states[order[i]];
    if (state.accepts) lengths.max = std::max(lengths.max, longest[order[i]]);
    for (const Edge& edge : state.edges) {
      longest[edge.to] = std::max(longest[edge.to], longest[order[i]] + 1);
      if (--n_sources[edge.to] == 0) order.push_back(edge.to);
    }
  }
  if (order.size() != n_reached) lengths.max = kNoLimit;
  return lengths;
}

}  // namespace vesper
