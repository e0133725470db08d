#include "tests/llm/grammar/random_grammar.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string_view>

namespace vesper {
namespace {

using Kind = GrammarPart::Kind;

constexpr uint32_t kCodePoints[] = {'a', ' ',  'b',  'c',  '"',    '\\',   '-',
                                    ']', '\n', 0xe8, 0xe9, 0x65e5, 0x1f44d};

uint32_t below(std::mt19937& random, uint32_t n) { return static_cast<uint32_t>(random() % n); }

std::string utf8(uint32_t c) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (c >> shift & 63)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xc0 | c >> 6), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xe0 | c >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | c >> 18), tail(12), tail(6), tail(0)};
}

GrammarPart random_class(std::mt19937& random) {
  GrammarPart part{.kind = Kind::kClass};
  if (below(random, 4) == 0) {
    part.negated = true;  // any character
    return part;
  }
  part.negated = below(random, 4) == 0;
  for (uint32_t n = 1 + below(random, 3); n > 0; --n) {
    uint32_t first = kCodePoints[below(random, std::size(kCodePoints))], last = first;
    if (below(random, 2) == 0) last = kCodePoints[below(random, std::size(kCodePoints))];
    if (below(random, 8) == 0) first = 0x7f0, last = 0x10012;
    part.set.push_back(std::minmax(first, last));
  }
  return part;
}

GrammarPart random_part(std::mt19937& random, size_t n_rules, int depth) {
  const uint32_t choice = below(random, depth > 0 ? 10 : 6);
  if (choice < 3) {
    GrammarPart part{.kind = Kind::kLiteral};
    for (uint32_t n = below(random, 8) == 0 ? 0 : 1 + below(random, 3); n > 0; --n) {
      part.text += utf8(kCodePoints[below(random, std::size(kCodePoints))]);
    }
    return part;
  }
  if (choice < 4) return random_class(random);
  if (choice < 6) return {.kind = Kind::kReference, .rule = below(random, uint32_t(n_rules))};
  if (choice < 8) {
    GrammarPart part{.kind = Kind::kRepeat};
    part.parts.push_back(random_part(random, n_rules, depth - 1));
    part.min = below(random, 4);
    part.max = below(random, 3) == 0 ? GrammarPart::kUnbounded : part.min + below(random, 4);
    if (part.max == 0) part.max = 1;
    return part;
  }
  GrammarPart part{.kind = choice == 8 ? Kind::kAlternatives : Kind::kSequence};
  for (uint32_t n = 1 + below(random, 3); n > 0; --n) {
    part.parts.push_back(random_part(random, n_rules, depth - 1));
  }
  return part;
}

std::string escaped(uint32_t c, bool in_class, std::mt19937& random) {
  char code[16];
  if (c < 0x100 && below(random, 4) == 0) return std::snprintf(code, 16, "\\x%02x", c), code;
  if (c < 0x10000 && below(random, 4) == 0) return std::snprintf(code, 16, "\\u%04X", c), code;
  if (below(random, 6) == 0) return std::snprintf(code, 16, "\\U%08x", c), code;
  if (c == '\n') return "\\n";
  if (c == '\\' || c == '"' || c == ']') return {'\\', static_cast<char>(c)};
  if (c == '-' && in_class) return "\\-";
  return utf8(c);
}

std::vector<uint32_t> code_points(std::string_view text) {
  std::vector<uint32_t> all;
  for (const uint32_t c : kCodePoints) {
    if (text.starts_with(utf8(c)) && !text.empty()) {
      all = code_points(text.substr(utf8(c).size()));
      all.insert(all.begin(), c);
      break;
    }
  }
  return all;
}

std::string space(std::mt19937& random, bool over_lines) {
  const char* kinds[] = {" ", "  ", "\t", " ", "\n", " # (\"[\n  ", "\r\n"};
  return kinds[below(random, over_lines ? 7 : 4)];
}

// `nested`: inside of parentheses, where lines do not end a rule.
std::string rendered(const GrammarPart& part, bool nested, std::mt19937& random) {
  const auto group = [&](const GrammarPart& inner) {
    return "(" + space(random, true) + rendered(inner, true, random) + ")";
  };
  std::string text;
  switch (part.kind) {
    case Kind::kLiteral:
      for (const uint32_t c : code_points(part.text)) text += escaped(c, false, random);
      return '"' + text + '"';
    case Kind::kClass:
      if (part.set.empty()) return ".";
      for (const auto& [first, last] : part.set) {
        text += escaped(first, true, random);
        if (last != first || below(random, 4) == 0) text += "-" + escaped(last, true, random);
      }
      return (part.negated ? "[^" : "[") + text + "]";
    case Kind::kReference:
      return part.rule == 0 ? "root" : "rule-" + std::to_string(part.rule);
    case Kind::kAlternatives:
      for (const GrammarPart& one : part.parts) {
        if (!text.empty()) text += "|" + space(random, true);
        text += rendered(one, nested, random) + space(random, true);
      }
      // As the part of a sequence it needs parentheses.
      return text;
    case Kind::kSequence:
      for (const GrammarPart& one : part.parts) {
        text += one.kind == Kind::kAlternatives ? group(one) : rendered(one, nested, random);
        text += space(random, nested);
      }
      return text;
    case Kind::kRepeat:
      break;
  }
  const GrammarPart& inner = part.parts[0];
  const bool is_simple = inner.kind < Kind::kAlternatives;
  text = (is_simple ? rendered(inner, nested, random) : group(inner)) + space(random, nested);
  const std::string min = std::to_string(part.min);
  if (part.max == GrammarPart::kUnbounded) {
    if (part.min < 2 && below(random, 2) == 0) return text + (part.min == 0 ? "*" : "+");
    return text + "{ " + min + ",}";
  }
  if (part.min == 0 && part.max == 1) return text + "?";
  if (part.min == part.max) return text + "{" + min + "}";
  return text + "{" + min + " , " + std::to_string(part.max) + " }";
}

bool is_nullable(const GrammarPart& part, const std::vector<bool>& rules) {
  const auto test = [&](const GrammarPart& one) { return is_nullable(one, rules); };
  switch (part.kind) {
    case Kind::kLiteral:
      return part.text.empty();
    case Kind::kClass:
      return false;
    case Kind::kReference:
      return rules[part.rule];
    case Kind::kAlternatives:
      return std::ranges::any_of(part.parts, test);
    case Kind::kSequence:
      return std::ranges::all_of(part.parts, test);
    case Kind::kRepeat:
      return part.min == 0 || test(part.parts[0]);
  }
  return false;
}

// The rules that a part refers to; with `first`, only those before any byte.
void references(const GrammarPart& part, const std::vector<bool>& nullable, bool first,
                std::vector<size_t>& rules) {
  if (part.kind == Kind::kReference) rules.push_back(part.rule);
  for (const GrammarPart& one : part.parts) {
    references(one, nullable, first, rules);
    if (first && part.kind == Kind::kSequence && !is_nullable(one, nullable)) break;
  }
}

// Whether a class has a character whose UTF-8 begins with these bytes; `ends`: is exactly these.
bool has_character(const GrammarPart& one, uint32_t partial, int n_bytes, bool& ends) {
  const auto byte = [&](int i) { return partial >> 8 * (n_bytes - 1 - i) & 0xff; };
  const uint32_t lead = byte(0);
  const int length = lead < 0x80                    ? 1
                     : lead >= 0xc2 && lead <= 0xdf ? 2
                     : lead >= 0xe0 && lead <= 0xef ? 3
                     : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                    : 0;
  if (n_bytes > length) return false;
  uint32_t value = length == 1 ? lead : lead & (0x7fu >> length);
  for (int i = 1; i < n_bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return false;
    value = value << 6 | (byte(i) & 63);
  }
  constexpr uint32_t kLowest[] = {0, 0, 0x80, 0x800, 0x10000};
  const int missing = 6 * (length - n_bytes);
  const uint32_t low = std::max(value << missing, kLowest[length]);
  const uint32_t high = std::min((value << missing) + (1u << missing) - 1, 0x10ffffu);
  ends = n_bytes == length;
  for (uint32_t c = low; c <= high; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    const bool inside = std::ranges::any_of(
        one.set, [&](const auto& range) { return range.first <= c && c <= range.second; });
    if (inside != one.negated) return true;
  }
  return false;
}

}  // namespace

const std::vector<std::string>& grammar_alphabet() {
  static const auto alphabet = [] {
    std::vector<std::string> all;
    for (const uint32_t c : kCodePoints) all.push_back(utf8(c));
    return all;
  }();
  return alphabet;
}

RandomGrammar random_grammar(std::mt19937& random) {
  const size_t n_rules = 1 + below(random, 5);
  RandomGrammar grammar;
  for (size_t i = 0; i < n_rules; ++i) grammar.push_back(random_part(random, n_rules, 3));
  return grammar;
}

std::string gbnf_of(const RandomGrammar& grammar, std::mt19937& random) {
  std::vector<std::string> rules;
  for (size_t i = 0; i < grammar.size(); ++i) {
    rules.push_back((i == 0 ? "root" : "rule-" + std::to_string(i)) + space(random, false) +
                    "::=" + space(random, true) + rendered(grammar[i], false, random) + "\n");
  }
  std::ranges::shuffle(rules, random);
  std::string text;
  for (const std::string& rule : rules) text += space(random, true) + rule;
  return text;
}

bool is_left_recursive(const RandomGrammar& grammar) {
  std::vector<bool> nullable(grammar.size());
  for (size_t round = 0; round < grammar.size(); ++round) {
    for (size_t i = 0; i < grammar.size(); ++i) nullable[i] = is_nullable(grammar[i], nullable);
  }
  const auto closure = [&](size_t rule, bool first) {
    std::vector<size_t> reached;
    references(grammar[rule], nullable, first, reached);
    for (size_t i = 0; i < reached.size(); ++i) {
      std::vector<size_t> more;
      references(grammar[reached[i]], nullable, first, more);
      for (const size_t one : more) {
        if (std::ranges::find(reached, one) == reached.end()) reached.push_back(one);
      }
    }
    return reached;
  };
  std::vector<size_t> rules = closure(0, false);
  rules.push_back(0);
  return std::ranges::any_of(rules, [&](size_t rule) {
    const std::vector<size_t> first = closure(rule, true);
    return std::ranges::find(first, rule) != first.end();
  });
}

EarleyRecognizer::EarleyRecognizer(const RandomGrammar& grammar) : n_nonterminals_(grammar.size()) {
  for (size_t i = 0; i < grammar.size(); ++i) {
    const size_t body = nonterminal_of(grammar[i]);
    add(i, {{Symbol::kNonterminal, body}});
  }
  const size_t start = new_nonterminal();
  add(start, {{Symbol::kNonterminal, 0}});
  // Without productions that no text comes from, every item is the begin of a text.
  std::vector<bool> productive(n_nonterminals_);
  nullable_.resize(n_nonterminals_);
  const auto grow = [&](std::vector<bool>& holds, bool terminals) {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Production& one : all_) {
        if (holds[one.left] || !std::ranges::all_of(one.right, [&](const Symbol& symbol) {
              return symbol.kind == Symbol::kNonterminal ? holds[symbol.index] : terminals;
            })) {
          continue;
        }
        holds[one.left] = changed = true;
      }
    }
  };
  grow(productive, true);
  grow(nullable_, false);
  std::erase_if(all_, [&](const Production& one) {
    return std::ranges::any_of(one.right, [&](const Symbol& symbol) {
      return symbol.kind == Symbol::kNonterminal && !productive[symbol.index];
    });
  });
  productions_of_.resize(n_nonterminals_);
  for (size_t i = 0; i < all_.size(); ++i) productions_of_[all_[i].left].push_back(i);
  admits_some_text_ = productive[0];
  sets_.emplace_back();
  for (const size_t i : productions_of_[start]) sets_[0].push_back({i, 0, 0, 0});
  complete(sets_[0]);
}

size_t EarleyRecognizer::nonterminal_of(const GrammarPart& part) {
  if (part.kind == Kind::kReference) return part.rule;
  const size_t left = new_nonterminal();
  const auto nonterminal = [](size_t index) { return Symbol{Symbol::kNonterminal, index}; };
  std::vector<Symbol> right;
  switch (part.kind) {
    case Kind::kLiteral:
      for (const char c : part.text) right.push_back({Symbol::kByte, static_cast<uint8_t>(c)});
      add(left, right);
      break;
    case Kind::kClass:
      classes_.push_back(part);
      add(left, {{Symbol::kClass, classes_.size() - 1}});
      break;
    case Kind::kAlternatives:
      for (const GrammarPart& one : part.parts) add(left, {nonterminal(nonterminal_of(one))});
      break;
    case Kind::kSequence:
      for (const GrammarPart& one : part.parts) right.push_back(nonterminal(nonterminal_of(one)));
      add(left, right);
      break;
    case Kind::kRepeat: {
      const Symbol body = nonterminal(nonterminal_of(part.parts[0]));
      size_t more = new_nonterminal();  // what may follow the first `min`
      right.assign(part.min, body);
      right.push_back(nonterminal(more));
      add(left, right);
      add(more, {});
      if (part.max == GrammarPart::kUnbounded) {
        add(more, {body, nonterminal(more)});
        break;
      }
      for (uint32_t i = part.min; i < part.max; ++i) {
        const size_t next = new_nonterminal();
        add(more, {body, nonterminal(next)});
        add(next, {});
        more = next;
      }
      break;
    }
    case Kind::kReference:
      break;
  }
  return left;
}

void EarleyRecognizer::complete(std::vector<Item>& set) {
  const size_t position = sets_.size() - 1;
  const auto insert = [&](const Item& item) {
    if (std::ranges::find(set, item) == set.end()) set.push_back(item);
  };
  for (size_t i = 0; i < set.size(); ++i) {
    const Item item = set[i];
    const Production& production = all_[item.production];
    if (item.dot == production.right.size()) {
      const std::vector<Item> waiting = item.origin == position ? set : sets_[item.origin];
      for (const Item& one : waiting) {
        const auto& right = all_[one.production].right;
        if (one.dot < right.size() && right[one.dot].kind == Symbol::kNonterminal &&
            right[one.dot].index == production.left) {
          insert({one.production, one.dot + 1, one.origin, 0});
        }
      }
      continue;
    }
    const Symbol& next = production.right[item.dot];
    if (next.kind != Symbol::kNonterminal) continue;
    for (const size_t one : productions_of_[next.index]) insert({one, 0, position, 0});
    if (nullable_[next.index]) insert({item.production, item.dot + 1, item.origin, 0});
  }
}

bool EarleyRecognizer::advance(uint8_t byte) {
  std::vector<Item> next;
  for (const Item& item : sets_.back()) {
    const Production& production = all_[item.production];
    if (item.dot == production.right.size()) continue;
    const Symbol& symbol = production.right[item.dot];
    if (symbol.kind == Symbol::kByte && symbol.index == byte) {
      next.push_back({item.production, item.dot + 1, item.origin, 0});
    }
    if (symbol.kind != Symbol::kClass) continue;
    const int n_bytes = 1 + (item.partial > 0) + (item.partial > 0xff) + (item.partial > 0xffff);
    const uint32_t partial = item.partial << 8 | byte;
    bool ends = false;
    if (!has_character(classes_[symbol.index], partial, n_bytes, ends)) continue;
    next.push_back({item.production, item.dot + (ends ? 1 : 0), item.origin, ends ? 0 : partial});
  }
  sets_.push_back(std::move(next));
  complete(sets_.back());
  return !sets_.back().empty();
}

bool EarleyRecognizer::advance(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (advance(static_cast<uint8_t>(bytes[i]))) continue;
    undo(i + 1);
    return false;
  }
  return true;
}

bool EarleyRecognizer::may_end() const {
  return std::ranges::any_of(sets_.back(), [&](const Item& item) {
    const Production& production = all_[item.production];
    return production.left == n_nonterminals_ - 1 && item.dot == production.right.size();
  });
}

}  // namespace vesper
