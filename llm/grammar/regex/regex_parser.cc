#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "error/error.h"
#include "llm/grammar/regex/regex.h"
#include "llm/tokenizer/unicode/characters.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper {
namespace {

constexpr int kMaxRegexDepth = 100;
constexpr size_t kMaxRegexBytes = 100'000;
constexpr uint32_t kMaxRepetitions = 1'000'000;

const CodePoints& digits() {
  static const CodePoints set = {{'0', '9'}};
  return set;
}

const CodePoints& word_characters() {
  static const CodePoints set = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return set;
}

// WhiteSpace and LineTerminator of ECMA-262.
const CodePoints& spaces() {
  static const CodePoints set = {
      {'\t', '\r'},     {' ', ' '},       {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
      {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
  return set;
}

const CodePoints& line_terminators() {
  static const CodePoints set = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return set;
}

RegexNode class_node(CodePoints set) {
  return {.kind = RegexNodeKind::kClass, .set = code_points_of(std::move(set)), .children = {}};
}

class RegexParser {
 public:
  explicit RegexParser(std::string_view pattern) : text_(pattern) {}

  RegexNode run() {
    if (text_.size() > kMaxRegexBytes) fail(0, "expected at most 100,000 bytes");
    const size_t valid = valid_utf8_prefix(text_);
    if (valid != text_.size()) fail(valid, "expected UTF-8");
    RegexNode regex = read_choice(0);
    if (at_ < text_.size()) fail(at_, "found ) without (");
    return regex;
  }

 private:
  [[noreturn]] static void fail(size_t offset, const std::string& message) {
    throw Error(ErrorKind::kUsage, "at byte " + std::to_string(offset) + ": " + message);
  }

  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool begins(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  bool take(std::string_view what) {
    if (!begins(what)) return false;
    at_ += what.size();
    return true;
  }

  RegexNode read_choice(int depth) {
    if (depth > kMaxRegexDepth) fail(at_, "expected at most 100 nested groups");
    RegexNode choice{.kind = RegexNodeKind::kChoice, .set = {}, .children = {}};
    do {
      choice.children.push_back(read_sequence(depth));
    } while (take("|"));
    if (choice.children.size() > 1) return choice;
    RegexNode only = std::move(choice.children.front());
    return only;
  }

  RegexNode read_sequence(int depth) {
    RegexNode sequence{.kind = RegexNodeKind::kSequence, .set = {}, .children = {}};
    while (!at_end() && peek() != '|' && peek() != ')') {
      const size_t offset = at_;
      RegexNode node = read_term(depth);
      read_quantifiers(offset, node);
      sequence.children.push_back(std::move(node));
    }
    return sequence;
  }

  RegexNode read_term(int depth) {
    const size_t offset = at_;
    if (take("^")) return {.kind = RegexNodeKind::kStart, .set = {}, .children = {}};
    if (take("$")) return {.kind = RegexNodeKind::kEnd, .set = {}, .children = {}};
    if (take(".")) return class_node(complement_of(line_terminators()));
    if (take("[")) return class_node(read_class(offset));
    if (take("(")) return read_group(offset, depth);
    if (take("\\")) return class_node(read_escape(offset, false));
    if (peek() == '*' || peek() == '+' || peek() == '?')
      fail(offset, std::string("found ") + peek() + " with nothing to repeat");
    const uint32_t c = next_character(text_, at_);
    return class_node({{c, c}});
  }

  RegexNode read_group(size_t offset, int depth) {
    if (take("?")) {
      if (begins("=") || begins("!") || begins("<=") || begins("<!"))
        fail(offset, "look-around is not supported");
      if (take("<")) {
        const size_t end = text_.find('>', at_);
        if (end == std::string_view::npos || end == at_) fail(offset, "expected (?<name>");
        at_ = end + 1;
      } else if (!take(":")) {
        fail(offset, "expected (?: or (?<name> after (?");
      }
    }
    RegexNode group = read_choice(depth + 1);
    if (!take(")")) fail(offset, "expected a ) for this (, found the end");
    return group;
  }

  std::optional<uint32_t> read_count() {
    if (peek() < '0' || peek() > '9') return std::nullopt;
    uint64_t count = 0;
    while (peek() >= '0' && peek() <= '9') {
      count = std::min<uint64_t>(count * 10 + uint64_t(peek() - '0'), UINT32_MAX);
      ++at_;
    }
    return static_cast<uint32_t>(count);
  }

  // {m}, {m,} or {m,n}. A brace of another form is a literal, as in ECMA-262's Annex B.
  std::optional<LengthRange> read_braces() {
    const size_t offset = at_;
    if (!take("{")) return std::nullopt;
    LengthRange count;
    const auto min = read_count();
    if (min) {
      count = {*min, *min};
      if (take(",")) count.max = read_count().value_or(kNoLimit);
    }
    if (!min || !take("}")) {
      at_ = offset;
      return std::nullopt;
    }
    if (count.min > count.max) fail(offset, "expected {m,n} with m up to n");
    if (count.min > kMaxRepetitions || (count.max > kMaxRepetitions && count.max != kNoLimit))
      fail(offset, "expected at most 1,000,000 repetitions");
    return count;
  }

  void read_quantifiers(size_t offset, RegexNode& node) {
    std::optional<LengthRange> count;
    if (take("*")) {
      count = LengthRange{};
    } else if (take("+")) {
      count = LengthRange{.min = 1};
    } else if (take("?")) {
      count = LengthRange{0, 1};
    } else {
      count = read_braces();
    }
    if (!count) return;
    if (node.kind == RegexNodeKind::kStart || node.kind == RegexNodeKind::kEnd)
      fail(offset, "an anchor cannot be repeated");
    take("?");  // lazy
    if (peek() == '*' || peek() == '+' || peek() == '?')
      fail(at_, std::string("found ") + peek() + " with nothing to repeat");
    RegexNode repeat{.kind = RegexNodeKind::kRepeat, .set = {}, .children = {}};
    repeat.min = count->min;
    repeat.max = count->max;
    repeat.children.push_back(std::move(node));
    node = std::move(repeat);
  }

  uint32_t read_hex(size_t offset, int n_digits) {
    uint32_t value = 0;
    for (int i = 0; i < n_digits; ++i) {
      const char c = peek();
      uint32_t digit = 0;
      if (c >= '0' && c <= '9') {
        digit = uint32_t(c - '0');
      } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
        digit = uint32_t((c | 0x20) - 'a' + 10);
      } else {
        fail(offset, "expected " + std::to_string(n_digits) + " hexadecimal digits");
      }
      value = value * 16 + digit;
      ++at_;
    }
    return value;
  }

  uint32_t read_unicode(size_t offset) {
    if (take("{")) {
      const size_t end = text_.find('}', at_);
      if (end == std::string_view::npos || end == at_ || end - at_ > 6)
        fail(offset, "expected \\u{ with 1 to 6 hexadecimal digits and }");
      const uint32_t c = read_hex(offset, static_cast<int>(end - at_));
      ++at_;
      if (c > kLastCodePoint) fail(offset, "expected a code point up to 10FFFF");
      return c;
    }
    const uint32_t c = read_hex(offset, 4);
    if (c >= 0xd800 && c < 0xdc00 && take("\\u")) {
      const uint32_t low = read_hex(offset, 4);
      if (low < 0xdc00 || low > 0xdfff) fail(offset, "expected a pair of surrogates");
      return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    return c;
  }

  CodePoints read_category(size_t offset, bool negated) {
    const size_t end = text_.find('}', at_);
    if (!take("{") || end == std::string_view::npos) fail(offset, "expected \\p{name}");
    std::string_view name = text_.substr(at_, end - at_);
    for (const std::string_view prefix : {"General_Category=", "gc="}) {
      if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    }
    at_ = end + 1;
    // The table has over a million entries, so each category is read once.
    auto known = std::find_if(categories_.begin(), categories_.end(),
                              [&](const auto& entry) { return entry.first == name; });
    if (known == categories_.end())
      known = categories_.emplace(known, name, code_points_of_category(name));
    if (known->second.empty())
      fail(offset, "expected the name of a general category, such as L or Lu");
    return negated ? complement_of(known->second) : known->second;
  }

  CodePoints read_escape(size_t offset, bool in_class) {
    if (at_end()) fail(offset, "found \\ at the end");
    const uint32_t c = next_character(text_, at_);
    const auto one = [](uint32_t x) { return CodePoints{{x, x}}; };
    switch (c) {
      case 'd':
        return digits();
      case 'D':
        return complement_of(digits());
      case 'w':
        return word_characters();
      case 'W':
        return complement_of(word_characters());
      case 's':
        return spaces();
      case 'S':
        return complement_of(spaces());
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'v':
        return one('\v');
      case 'f':
        return one('\f');
      case 'r':
        return one('\r');
      case 'x':
        return one(read_hex(offset, 2));
      case 'u':
        return one(read_unicode(offset));
      case 'p':
      case 'P':
        return read_category(offset, c == 'P');
      case 'c': {
        const char letter = static_cast<char>(peek() | 0x20);
        if (letter < 'a' || letter > 'z') fail(offset, "expected \\c with a letter");
        ++at_;
        return one(uint32_t(letter - 'a' + 1));
      }
      case '0':
        if (peek() >= '0' && peek() <= '9') fail(offset, "octal escapes are not supported");
        return one(0);
      case 'b':
        if (in_class) return one('\b');
        [[fallthrough]];
      case 'B':
        fail(offset, "word boundaries are not supported");
      default:
        break;
    }
    if (c >= '1' && c <= '9') fail(offset, "back references are not supported");
    if (c == 'k') fail(offset, "back references are not supported");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
      fail(offset, std::string("there is no escape \\") + static_cast<char>(c));
    return one(c);
  }

  // One member of a class: a character, or a set such as \d.
  CodePoints read_member(size_t offset) {
    const size_t here = at_;
    if (take("\\")) return read_escape(here, true);
    if (at_end()) fail(offset, "found [ without ]");
    const uint32_t c = next_character(text_, at_);
    return {{c, c}};
  }

  CodePoints read_class(size_t offset) {
    const bool negated = take("^");
    std::vector<CodePointRange> ranges;
    while (!take("]")) {
      const size_t here = at_;
      const CodePoints member = read_member(offset);
      const auto is_one = [](const CodePoints& set) {
        return set.size() == 1 && set[0].first == set[0].last;
      };
      if (begins("-") && !begins("-]") && is_one(member)) {
        ++at_;
        const CodePoints end = read_member(offset);
        if (!is_one(end) || end[0].last < member[0].first)
          fail(here, "expected a range of two characters, the lower one first");
        ranges.push_back({member[0].first, end[0].last});
      } else {
        ranges.insert(ranges.end(), member.begin(), member.end());
      }
    }
    CodePoints set = code_points_of(std::move(ranges));
    return negated ? complement_of(set) : set;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<std::pair<std::string, CodePoints>> categories_;
};

}  // namespace

RegexNode parse_regex(std::string_view pattern) { return RegexParser(pattern).run(); }

}  // namespace vesper
