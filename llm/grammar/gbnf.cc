#include "llm/grammar/gbnf.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "error/error.h"
#include "error/number_text.h"
#include "llm/tokenizer/unicode/characters.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper {

namespace {

constexpr char kByteOrderMark[] = "\xEF\xBB\xBF";

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

int hexadecimal_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view text)
      : text_(text.substr(text.starts_with(kByteOrderMark) ? sizeof(kByteOrderMark) - 1 : 0)) {
    for (size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] == '\n') line_starts_.push_back(i + 1);
    }
  }

  Grammar run() {
    const size_t n_valid = valid_utf8_prefix(text_);
    if (n_valid != text_.size()) {
      fail(n_valid, "expected UTF-8, found the byte " +
                        std::to_string(static_cast<unsigned char>(text_[n_valid])));
    }
    for (skip_space(true); at_ < text_.size(); skip_space(true)) parse_rule();
    for (const NamedRule& rule : rules_) {
      if (!rule.is_defined) {
        fail(rule.at, "expected a rule that is defined, found " + quoted(rule.name));
      }
    }
    const auto root = indices_.find("root");
    if (root == indices_.end()) {
      fail(text_.size(), rules_.empty() ? "expected the rule \"root\", found no rules"
                                        : "expected the rule \"root\", found none of this name");
    }
    grammar_.set_root(root->second);
    return std::move(grammar_);
  }

 private:
  struct NamedRule {
    std::string_view name;
    size_t at;  // its definition, or its first use before it
    bool is_defined;
  };

  // Control characters as in a grammar: a message is one line.
  static std::string quoted(std::string_view text) {
    constexpr size_t kMost = 40;
    std::string shown = "\"";
    for (size_t at = 0; at < text.size() && shown.size() < kMost;) {
      const size_t first = at;
      const char32_t c = next_character(text, at);
      if (is_printable(c)) {
        shown += text.substr(first, at - first);
      } else {
        shown += formatted("\\U%08x", static_cast<unsigned>(c));
      }
    }
    return shown + '"';
  }

  std::string place(size_t at) const {
    const auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), at);
    size_t column = 1;
    for (size_t i = *(next - 1); i < at; ++i) column += (text_[i] & 0xC0) != 0x80;
    return "line " + std::to_string(next - line_starts_.begin()) + ", column " +
           std::to_string(column);
  }

  [[noreturn]] void fail(size_t at, const std::string& message) const {
    throw Error(ErrorKind::kUsage, grammar_.setting(), place(at) + ": " + message);
  }

  [[noreturn]] void fail_expected(const std::string& expected) const {
    std::string found;
    if (at_ == text_.size()) {
      found = "the end of the grammar";
    } else if (text_[at_] == '\n' || text_[at_] == '\r') {
      found = "the end of the line";
    } else {
      size_t end = at_;
      next_character(text_, end);
      if (is_name_character(text_[at_])) {
        while (end < text_.size() && is_name_character(text_[end])) ++end;
      }
      found = quoted(text_.substr(at_, end - at_));
    }
    fail(at_, "expected " + expected + ", found " + found);
  }

  bool next_is(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  bool take(std::string_view what) {
    if (!next_is(what)) return false;
    at_ += what.size();
    return true;
  }

  // Past white space and comments, and past the ends of lines with `over_lines`.
  void skip_space(bool over_lines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '\r') ++at_;
      } else if (c == ' ' || c == '\t' || (over_lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view take_name() {
    const size_t first = at_;
    while (at_ < text_.size() && is_name_character(text_[at_])) ++at_;
    return text_.substr(first, at_ - first);
  }

  uint32_t rule_of(std::string_view name, size_t at) {
    const auto [found, is_new] = indices_.try_emplace(name, static_cast<uint32_t>(rules_.size()));
    if (is_new) {
      rules_.push_back({name, at, false});
      grammar_.add_rule(std::string(name));
    }
    return found->second;
  }

  void parse_rule() {
    const size_t at = at_;
    const std::string_view name = take_name();
    if (name.empty()) fail_expected("the name of a rule");
    skip_space(false);
    if (!take("::=")) fail_expected("\"::=\" after " + quoted(name));
    const uint32_t rule = rule_of(name, at);
    if (rules_[rule].is_defined) {
      fail(at, "expected one definition of " + quoted(name) + ", found one at " +
                   place(rules_[rule].at) + " too");
    }
    rules_[rule] = {name, at, true};
    skip_space(true);
    grammar_.define(rule, parse_alternatives(0), place(at));
    if (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '\r') {
      fail_expected(
          "a string, a class, a name, a group, a repetition, \"|\" or the end of the line");
    }
  }

  // Whether an alternative follows on a later line.
  bool continues_on_later_line() {
    const size_t at = at_;
    skip_space(true);
    if (next_is("|")) return true;
    at_ = at;
    return false;
  }

  uint32_t parse_alternatives(uint32_t depth) {
    std::vector<uint32_t> alternatives = {parse_sequence(depth)};
    while (next_is("|") || (depth == 0 && continues_on_later_line())) {
      take("|");
      skip_space(true);
      alternatives.push_back(parse_sequence(depth));
    }
    return alternatives.size() == 1 ? alternatives[0] : grammar_.choice(alternatives);
  }

  uint32_t parse_sequence(uint32_t depth) {
    std::vector<uint32_t> parts;
    while (const auto part = parse_part(depth)) {
      parts.push_back(*part);
      skip_space(depth > 0);
      while (parse_repetition(parts.back())) skip_space(depth > 0);
    }
    return parts.size() == 1 ? parts[0] : grammar_.sequence(parts);
  }

  std::optional<uint32_t> parse_part(uint32_t depth) {
    if (at_ == text_.size()) return std::nullopt;
    const size_t at = at_;
    if (next_is("\"")) return parse_string();
    if (next_is("[")) return parse_class();
    if (take(".")) return grammar_.character_class({}, true);
    if (take("(")) {
      if (depth == kMostGbnfGroups) {
        fail(at, "expected at most " + std::to_string(kMostGbnfGroups) +
                     " nested parentheses, found more");
      }
      skip_space(true);
      const uint32_t group = parse_alternatives(depth + 1);
      if (!take(")")) {
        fail_expected("\")\" for the \"(\" at " + place(at) + ", \"|\" or a part of the group");
      }
      return group;
    }
    if (is_name_character(text_[at_])) {
      const std::string_view name = take_name();
      const uint32_t rule = rule_of(name, at);
      return grammar_.reference(rule);
    }
    if (next_is("*") || next_is("+") || next_is("?") || next_is("{")) {
      fail_expected("something before a repetition");
    }
    if (next_is("<") || next_is("!")) {
      fail_expected("text, because tokens cannot be referred to");
    }
    return std::nullopt;
  }

  uint32_t parse_string() {
    const size_t begin = at_++;
    std::string bytes;
    while (!take("\"")) {
      if (at_ == text_.size()) fail_expected("'\"' for the string at " + place(begin));
      append_character(parse_character(false), bytes);
    }
    return grammar_.literal(bytes);
  }

  uint32_t parse_class() {
    const size_t begin = at_++;
    const bool negated = take("^");
    std::vector<CodePointRange> ranges;
    while (!take("]")) {
      if (at_ == text_.size()) fail_expected("\"]\" for the class at " + place(begin));
      const size_t at = at_;
      const uint32_t first = parse_character(true);
      uint32_t last = first;
      if (next_is("-") && !next_is("-]")) {
        ++at_;
        if (at_ == text_.size()) fail_expected("the last character of the range at " + place(at));
        last = parse_character(true);
      }
      if (last < first) {
        fail(at, "expected a range of ascending characters, found " +
                     quoted(text_.substr(at, at_ - at)));
      }
      ranges.push_back({first, last});
    }
    if (ranges.empty()) fail(begin, "expected a class with characters, found an empty one");
    return grammar_.character_class(ranges, negated);
  }

  // Of a string or a class.
  char32_t parse_character(bool in_class) {
    if (!take("\\")) return next_character(text_, at_);
    const size_t escape = at_ - 1;
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    switch (c) {
      case 'n':
        return ++at_, '\n';
      case 'r':
        return ++at_, '\r';
      case 't':
        return ++at_, '\t';
      case '\\':
      case '"':
      case '[':
      case ']':
        return ++at_, static_cast<char32_t>(c);
      case '-':
      case '^':
        if (in_class) return ++at_, static_cast<char32_t>(c);
        break;
      case 'x':
        return ++at_, parse_code_point(escape, 2);
      case 'u':
        return ++at_, parse_code_point(escape, 4);
      case 'U':
        return ++at_, parse_code_point(escape, 8);
      default:
        break;
    }
    fail_expected(in_class ? "one of n r t \\ \" [ ] - ^ x u U after \"\\\""
                           : "one of n r t \\ \" [ ] x u U after \"\\\"");
  }

  char32_t parse_code_point(size_t escape, int n_digits) {
    uint32_t code_point = 0;
    for (int i = 0; i < n_digits; ++i, ++at_) {
      const int digit = at_ < text_.size() ? hexadecimal_digit(text_[at_]) : -1;
      if (digit < 0) fail_expected(std::to_string(n_digits) + " hexadecimal digits");
      code_point = code_point << 4 | static_cast<uint32_t>(digit);
    }
    if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) {
      fail(escape,
           "expected a character of Unicode, found " + quoted(text_.substr(escape, at_ - escape)));
    }
    return code_point;
  }

  // Repeats `part`. Returns false if no repetition follows.
  bool parse_repetition(uint32_t& part) {
    const size_t begin = at_;
    if (take("*")) {
      part = grammar_.repeat(part, 0);
    } else if (take("+")) {
      part = grammar_.repeat(part, 1);
    } else if (take("?")) {
      part = grammar_.repeat(part, 0, 1);
    } else if (take("{")) {
      skip_space(true);
      const uint32_t min = parse_count();
      uint32_t max = min;
      skip_space(true);
      if (take(",")) {
        skip_space(true);
        max = next_is("}") ? Grammar::kUnbounded : parse_count();
        skip_space(true);
      }
      if (!take("}")) fail_expected("\"}\" for the \"{\" at " + place(begin));
      if (max < min) {
        fail(begin, "expected a highest count of at least " + std::to_string(min) + ", found " +
                        std::to_string(max));
      }
      part = grammar_.repeat(part, min, max);
    } else {
      return false;
    }
    return true;
  }

  uint32_t parse_count() {
    const size_t begin = at_;
    uint64_t count = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      count = count * 10 + static_cast<uint64_t>(text_[at_++] - '0');
      if (count > kMostGbnfRepetitions) {
        fail(begin, "expected a count of at most " + std::to_string(kMostGbnfRepetitions) +
                        ", found more");
      }
    }
    if (at_ == begin) fail_expected("a count of repetitions");
    return static_cast<uint32_t>(count);
  }

  const std::string_view text_;
  std::vector<size_t> line_starts_ = {0};
  size_t at_ = 0;
  Grammar grammar_;
  std::vector<NamedRule> rules_;                            // by rule of the grammar
  std::unordered_map<std::string_view, uint32_t> indices_;  // by name
};

}  // namespace

Grammar parse_gbnf(std::string_view text) { return GbnfParser(text).run(); }

}  // namespace vesper
