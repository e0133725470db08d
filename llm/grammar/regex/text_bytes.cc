#include "llm/grammar/regex/text_bytes.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "llm/grammar/rules/utf8_ranges.h"

namespace vesper {
namespace {

bool has_escape(uint32_t c) { return c < 0x20 || c == '"' || c == '\\'; }

// States that follow the first byte of a character are shared: most states of an automaton go on
// with the same sets of characters beyond ASCII, or of escapes.
class ByteAutomatonMaker {
 public:
  ByteAutomatonMaker(const TextDfa& dfa, TextSpelling spelling) : dfa_(dfa), spelling_(spelling) {}

  ByteAutomaton run() {
    out_.states.resize(dfa_.states.size());
    for (size_t i = 0; i < dfa_.states.size(); ++i) {
      std::vector<ByteAutomaton::Edge> edges;
      std::vector<TextDfa::Edge> longer;  // characters of several bytes
      for (const TextDfa::Edge& edge : dfa_.states[i].edges) split(edge, edges, longer);
      const auto& more = edges_of_longer(longer);
      edges.insert(edges.end(), more.begin(), more.end());
      out_.states[i].edges = std::move(edges);
      out_.states[i].accepts = dfa_.states[i].accepts;
    }
    return std::move(out_);
  }

 private:
  // The bytes of some characters, and the state after them.
  struct Path {
    std::vector<std::pair<uint8_t, uint8_t>> bytes;
    uint32_t to;
    auto operator<=>(const Path&) const = default;
  };
  using Paths = std::vector<Path>;

  bool is_one_byte(uint32_t c) const {
    return c < 0x80 && !(spelling_ == TextSpelling::kJsonString && has_escape(c));
  }

  void split(const TextDfa::Edge& edge, std::vector<ByteAutomaton::Edge>& edges,
             std::vector<TextDfa::Edge>& longer) const {
    for (uint32_t first = edge.first; first <= edge.last;) {
      const bool is_short = is_one_byte(first);
      uint32_t last = first;
      while (last < edge.last && last < 0x80 && is_one_byte(last + 1) == is_short) ++last;
      if (last >= 0x80) last = edge.last;
      if (is_short) {
        edges.push_back({uint8_t(first), uint8_t(last), edge.to});
      } else {
        longer.push_back({first, last, edge.to});
      }
      first = last + 1;
    }
  }

  const std::vector<ByteAutomaton::Edge>& edges_of_longer(
      const std::vector<TextDfa::Edge>& longer) {
    std::vector<uint32_t> key;
    for (const TextDfa::Edge& edge : longer)
      key.insert(key.end(), {edge.first, edge.last, edge.to});
    const auto [known, is_new] = longer_.try_emplace(std::move(key));
    if (is_new) {
      Paths paths;
      for (const TextDfa::Edge& edge : longer) append_paths(edge, paths);
      known->second = edges_of(paths);
    }
    return known->second;
  }

  void append_paths(const TextDfa::Edge& edge, Paths& paths) const {
    if (edge.first < 0x80 && spelling_ == TextSpelling::kJsonString) {
      for (uint32_t c = edge.first; c <= edge.last && c < 0x80; ++c) {
        Path path{{}, edge.to};
        for (const char byte : json_escape(c)) path.bytes.push_back({uint8_t(byte), uint8_t(byte)});
        paths.push_back(std::move(path));
      }
    }
    std::vector<Utf8Range> ranges;
    if (edge.last >= 0x80) append_utf8_ranges(std::max(edge.first, 0x80u), edge.last, ranges);
    for (const Utf8Range& range : ranges) {
      Path path{{}, edge.to};
      for (uint32_t i = 0; i < range.length; ++i)
        path.bytes.push_back({range.bytes[i].first, range.bytes[i].last});
      paths.push_back(std::move(path));
    }
  }

  // Characters of different lengths or ranges differ in their first byte, or share one range of
  // it, so that grouping by ranges of bytes is deterministic but for rare cuts. The compiler of
  // grammars removes what is left.
  std::vector<ByteAutomaton::Edge> edges_of(Paths& paths) {
    std::sort(paths.begin(), paths.end());
    std::vector<ByteAutomaton::Edge> edges;
    for (size_t i = 0; i < paths.size();) {
      const auto [first, last] = paths[i].bytes[0];
      if (paths[i].bytes.size() == 1) {
        edges.push_back({first, last, paths[i].to});
        ++i;
        continue;
      }
      Paths rest;
      for (; i < paths.size() && paths[i].bytes[0] == std::pair(first, last); ++i)
        rest.push_back({{paths[i].bytes.begin() + 1, paths[i].bytes.end()}, paths[i].to});
      edges.push_back({first, last, state_of(std::move(rest))});
    }
    return edges;
  }

  uint32_t state_of(Paths paths) {
    const auto known = states_.find(paths);
    if (known != states_.end()) return known->second;
    const auto state = static_cast<uint32_t>(out_.states.size());
    states_.emplace(paths, state);
    out_.states.emplace_back();
    auto edges = edges_of(paths);
    out_.states[state].edges = std::move(edges);
    return state;
  }

  const TextDfa& dfa_;
  const TextSpelling spelling_;
  ByteAutomaton out_;
  std::map<Paths, uint32_t> states_;  // by what may follow
  // By ranges of code points and their targets.
  std::map<std::vector<uint32_t>, std::vector<ByteAutomaton::Edge>> longer_;
};

}  // namespace

std::string json_escape(uint32_t code_point) {
  switch (code_point) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  if (!has_escape(code_point)) return {};
  constexpr std::string_view kDigits = "0123456789abcdef";
  return std::string("\\u00") + kDigits[code_point / 16] + kDigits[code_point % 16];
}

uint32_t add_characters(Grammar& grammar, const CodePoints& set, TextSpelling spelling) {
  if (spelling == TextSpelling::kPlain) return grammar.character_class(set);
  static const CodePoints escaped = [] {
    std::vector<CodePointRange> ranges = {{'"', '"'}, {'\\', '\\'}, {0, 0x1f}};
    return code_points_of(std::move(ranges));
  }();
  static const CodePoints plain = complement_of(escaped);
  std::vector<uint32_t> choices = {grammar.character_class(intersection_of(set, plain))};
  for (const CodePointRange& range : intersection_of(set, escaped)) {
    for (uint32_t c = range.first; c <= range.last; ++c)
      choices.push_back(grammar.literal(json_escape(c)));
  }
  return choices.size() == 1 ? choices[0] : grammar.choice(choices);
}

uint32_t add_texts(Grammar& grammar, const TextDfa& dfa, TextSpelling spelling) {
  return grammar.automaton(ByteAutomatonMaker(dfa, spelling).run());
}

}  // namespace vesper
