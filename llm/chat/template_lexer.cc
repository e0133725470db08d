#include "llm/chat/template_lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "llm/chat/template_value.h"
#include "llm/tokenizer/unicode/characters.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper::chat {
namespace {

// All line ends become LF. One line end at the end of a template is ignored.
std::string with_plain_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source)
      : text_(with_plain_lines(valid_utf8(source))), rest_(text_) {}

  std::vector<Token> run() {
    while (!rest_.empty()) {
      read_text();
      if (rest_.empty()) break;
      const char kind = rest_[1];
      if (kind == '#') {
        skip_comment();
      } else if (kind == '%' && begins_raw()) {
        read_raw();
      } else {
        read_tag(kind);
      }
    }
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail_here(const std::string& message) const {
    fail("line " + std::to_string(line_) + ": " + message);
  }

  void add(TokenKind kind, std::string_view text) {
    Token token;
    token.kind = kind;
    token.text = text;
    token.line = line_;
    tokens_.push_back(std::move(token));
  }

  void skip(size_t n) {
    line_ += static_cast<uint32_t>(
        std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(n), '\n'));
    rest_.remove_prefix(n);
  }

  // The text before a tag with the mark `mark` ('-', '+' or none), white space removed. `is_block`:
  // not an output tag.
  std::string_view before_tag(std::string_view text, char mark, bool is_block) const {
    if (mark == '-') return text.substr(0, text.size() - white_space_at_end(text));
    if (mark == '+' || !is_block) return text;
    const size_t line = text.rfind('\n') + 1;  // 0 if there is none
    if (line == 0 && !at_line_start_) return text;
    return white_space_at_start(text.substr(line)) == text.size() - line ? text.substr(0, line)
                                                                         : text;
  }

  // Text up to the next tag.
  void read_text() {
    size_t at = 0;
    for (;; ++at) {
      at = rest_.find('{', at);
      if (at == std::string_view::npos || at + 1 == rest_.size()) {
        at = rest_.size();
        break;
      }
      if (rest_[at + 1] == '{' || rest_[at + 1] == '%' || rest_[at + 1] == '#') break;
    }
    std::string_view text = rest_.substr(0, at);
    if (at < rest_.size()) {
      const char mark = at + 2 < rest_.size() ? rest_[at + 2] : '\0';
      text = before_tag(text, mark, rest_[at + 1] != '{');
    }
    if (!text.empty()) add(TokenKind::kText, text);
    skip(at);
  }

  // After the end of a tag, whose last two characters are at `at`.
  void end_tag(size_t at, bool trims_line) {
    const char mark = at > 0 ? rest_[at - 1] : '\0';
    skip(at + 2);
    size_t n = 0;
    if (mark == '-') {
      n = white_space_at_start(rest_);
    } else if (trims_line && mark != '+' && rest_.starts_with('\n')) {
      n = 1;
    }
    at_line_start_ = n > 0 && rest_[n - 1] == '\n';
    skip(n);
  }

  void skip_comment() {
    const size_t end = rest_.find("#}", 2);
    if (end == std::string_view::npos) fail_here("expected #} at the end of a comment");
    end_tag(end, true);
  }

  // If `text` starts with "{% NAME %}" with any marks, the position after it, and in `end` its end;
  // otherwise 0.
  static size_t plain_tag(std::string_view text, std::string_view name, size_t& end) {
    size_t at = 2;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    while (at < text.size() && is_space(text[at])) ++at;
    if (!text.substr(at).starts_with(name)) return 0;
    at += name.size();
    while (at < text.size() && is_space(text[at])) ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    if (!text.substr(at).starts_with("%}")) return 0;
    end = at;
    return at + 2;
  }

  bool begins_raw() const {
    size_t end = 0;
    return plain_tag(rest_, "raw", end) != 0;
  }

  void read_raw() {
    size_t end = 0;
    plain_tag(rest_, "raw", end);
    end_tag(end, false);
    for (size_t at = rest_.find("{%"); at != std::string_view::npos;
         at = rest_.find("{%", at + 1)) {
      if (plain_tag(rest_.substr(at), "endraw", end) == 0) continue;
      const std::string_view text = before_tag(rest_.substr(0, at), rest_[at + 2], true);
      if (!text.empty()) add(TokenKind::kText, text);
      skip(at);
      end_tag(end, true);
      return;
    }
    fail_here("expected {% endraw %}");
  }

  void read_tag(char kind) {
    const bool is_block = kind == '%';
    add(is_block ? TokenKind::kBeginBlock : TokenKind::kBeginOutput, "");
    skip(2);
    if (rest_.starts_with('-') || rest_.starts_with('+')) skip(1);
    const std::string_view closing = is_block ? "%}" : "}}";
    size_t n_open = 0;  // open brackets of all kinds: inside them the tag does not end
    for (;;) {
      while (!rest_.empty() && is_space(rest_.front())) skip(1);
      if (rest_.empty()) fail_here("expected " + std::string(closing) + " at the end of a tag");
      if (n_open == 0) {
        const bool marked = rest_.front() == '-' || (is_block && rest_.front() == '+');
        if (rest_.substr(marked ? 1 : 0).starts_with(closing)) {
          add(is_block ? TokenKind::kEndBlock : TokenKind::kEndOutput, "");
          return end_tag(marked ? 1 : 0, is_block);
        }
      }
      read_token(n_open);
    }
  }

  void read_token(size_t& n_open) {
    const char c = rest_.front();
    if (begins_name(c)) {
      size_t n = 1;
      while (n < rest_.size() && (begins_name(rest_[n]) || is_digit(rest_[n]))) ++n;
      add(TokenKind::kName, rest_.substr(0, n));
      return skip(n);
    }
    if (is_digit(c)) return read_number();
    if (c == '"' || c == '\'') return read_string(c);
    for (const std::string_view sign : {"==", "!=", "<=", ">=", "//", "**"}) {
      if (!rest_.starts_with(sign)) continue;
      add(TokenKind::kOperator, sign);
      return skip(2);
    }
    constexpr std::string_view kSigns = "+-*/%~<>=()[]{},.:|;";
    if (kSigns.find(c) == std::string_view::npos) {
      fail_here("expected an expression, found \"" + std::string(1, c) + "\"");
    }
    if (c == '(' || c == '[' || c == '{') ++n_open;
    if (c == ')' || c == ']' || c == '}') {
      if (n_open == 0) fail_here("expected an expression, found \"" + std::string(1, c) + "\"");
      --n_open;
    }
    add(TokenKind::kOperator, rest_.substr(0, 1));
    skip(1);
  }

  void read_number() {
    size_t n = 0;
    bool is_float = false;
    std::string digits;
    const auto take_digits = [&] {
      while (n < rest_.size() && (is_digit(rest_[n]) || (rest_[n] == '_' && n > 0))) {
        if (rest_[n] != '_') digits += rest_[n];
        ++n;
      }
    };
    take_digits();
    if (n + 1 < rest_.size() && rest_[n] == '.' && is_digit(rest_[n + 1])) {
      is_float = true;
      digits += rest_[n++];
      take_digits();
    }
    if (n < rest_.size() && (rest_[n] == 'e' || rest_[n] == 'E')) {
      size_t sign = n + 1;
      if (sign < rest_.size() && (rest_[sign] == '+' || rest_[sign] == '-')) ++sign;
      if (sign < rest_.size() && is_digit(rest_[sign])) {
        is_float = true;
        digits += rest_.substr(n, sign - n);
        n = sign;
        take_digits();
      }
    }
    add(is_float ? TokenKind::kFloat : TokenKind::kInteger, digits);
    Token& token = tokens_.back();
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = is_float ? std::from_chars(digits.data(), end, token.number)
                                        : std::from_chars(digits.data(), end, token.integer);
    if (error != std::errc() || stop != end) fail_here("expected a number, found " + digits);
    skip(n);
  }

  void read_string(char quote) {
    const uint32_t line = line_;
    std::string text;
    size_t at = 1;
    for (;; ++at) {
      if (at >= rest_.size()) fail_here("expected the end of a string");
      const char c = rest_[at];
      if (c == quote) break;
      if (c != '\\') {
        text += c;
        continue;
      }
      if (++at >= rest_.size()) fail_here("expected the end of a string");
      at += take_escape(at, text);
    }
    skip(at + 1);
    add(TokenKind::kString, valid_utf8(text));
    tokens_.back().line = line;
  }

  // Appends the character of the escape at `at`, as in Python. Returns its length after the
  // backslash, minus one.
  size_t take_escape(size_t at, std::string& text) {
    const char c = rest_[at];
    constexpr std::string_view kFrom = "ntrabfv0\\'\"";
    constexpr std::string_view kTo("\n\t\r\a\b\f\v\0\\'\"", 11);
    if (c == 'x' || c == 'u' || c == 'U') {
      const size_t n_digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      uint32_t code = 0;
      const std::string_view digits = rest_.substr(at + 1, n_digits);
      const auto [stop, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
      if (digits.size() != n_digits || error != std::errc() ||
          stop != digits.data() + digits.size() || code > 0x10ffff) {
        fail_here("expected " + std::to_string(n_digits) + " hexadecimal digits after \\" + c);
      }
      // Halves of surrogate pairs are not characters.
      append_character(code >= 0xd800 && code < 0xe000 ? 0xfffd : code, text);
      return n_digits;
    }
    if (c == '\n') return 0;  // continues the line
    const size_t known = kFrom.find(c);
    if (known == std::string_view::npos) {
      text += '\\';
      text += c;
    } else {
      text += kTo[known];
    }
    return 0;
  }

  std::string text_;
  std::string_view rest_;
  std::vector<Token> tokens_;
  uint32_t line_ = 1;
  bool at_line_start_ =
      true;  // there is only white space between the last tag and the start of its line
};

}  // namespace

std::vector<Token> tokens_of_template(std::string_view source) { return Lexer(source).run(); }

}  // namespace vesper::chat
