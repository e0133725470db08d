#include "llm/chat/template_expressions.h"

#include <algorithm>

namespace vesper::chat {
namespace {

constexpr uint32_t kMaxNesting = 150;

using Kind = Expression::Kind;

}  // namespace

ExpressionParser::Nesting::Nesting(ExpressionParser& parser) : parser_(parser) {
  if (++parser.nesting_ <= kMaxNesting) return;
  --parser.nesting_;
  parser.fail_here("expected tags and brackets nested at most " + std::to_string(kMaxNesting) +
                   " deep");
}

void ExpressionParser::fail_here(const std::string& message) const {
  fail("line " + std::to_string(peek().line) + ": " + message);
}

const Token& ExpressionParser::peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

Token ExpressionParser::take() {
  Token token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool ExpressionParser::at_operator(std::string_view sign) const {
  return peek().kind == TokenKind::kOperator && peek().text == sign;
}

bool ExpressionParser::skip_operator(std::string_view sign) {
  if (!at_operator(sign)) return false;
  take();
  return true;
}

void ExpressionParser::expect_operator(std::string_view sign) {
  if (!skip_operator(sign)) {
    fail_here("expected \"" + std::string(sign) + "\", found \"" + peek().text + "\"");
  }
}

bool ExpressionParser::at_name(std::string_view name) const {
  return peek().kind == TokenKind::kName && peek().text == name;
}

bool ExpressionParser::skip_name(std::string_view name) {
  if (!at_name(name)) return false;
  take();
  return true;
}

void ExpressionParser::expect_name(std::string_view name) {
  if (!skip_name(name)) {
    fail_here("expected \"" + std::string(name) + "\", found \"" + peek().text + "\"");
  }
}

std::string ExpressionParser::take_name(const std::string& what) {
  if (peek().kind != TokenKind::kName) {
    fail_here("expected " + what + ", found \"" + peek().text + "\"");
  }
  return take().text;
}

void ExpressionParser::expect_kind(TokenKind kind, const std::string& what) {
  if (peek().kind != kind) fail_here("expected " + what + ", found \"" + peek().text + "\"");
  take();
}

ExpressionPtr ExpressionParser::make(Kind kind, std::vector<ExpressionPtr> parts) {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->line = peek().line;
  expression->parts = std::move(parts);
  settle_depth(*expression);
  return expression;
}

ExpressionPtr ExpressionParser::make_pair(Kind kind, ExpressionPtr a, ExpressionPtr b) {
  std::vector<ExpressionPtr> parts;
  parts.push_back(std::move(a));
  parts.push_back(std::move(b));
  return make(kind, std::move(parts));
}

ExpressionPtr ExpressionParser::make_constant(Value value) {
  ExpressionPtr expression = make(Kind::kConstant);
  expression->value = std::move(value);
  return expression;
}

void ExpressionParser::settle_depth(Expression& expression) const {
  const auto add = [&](const ExpressionPtr& part) {
    if (part) expression.depth = std::max(expression.depth, part->depth + 1);
  };
  for (const ExpressionPtr& part : expression.parts) add(part);
  for (const auto& [name, part] : expression.named) add(part);
  add(expression.spread_items);
  add(expression.spread_names);
  // A chain such as a+a+a is as deep as it is long.
  if (expression.depth > 4 * kMaxNesting) {
    fail_here("expected an expression of at most " + std::to_string(4 * kMaxNesting) +
              " steps in a chain");
  }
}

ExpressionPtr ExpressionParser::parse_items(bool with_condition) {
  const auto item = [&] { return with_condition ? parse_expression() : parse_or(); };
  ExpressionPtr first = item();
  if (!at_operator(",")) return first;
  std::vector<ExpressionPtr> parts;
  parts.push_back(std::move(first));
  while (skip_operator(",")) {
    const Token& next = peek();
    if (next.kind == TokenKind::kEndBlock || next.kind == TokenKind::kEndOutput ||
        at_operator(")")) {
      break;
    }
    parts.push_back(item());
  }
  return make(Kind::kTuple, std::move(parts));
}

ExpressionPtr ExpressionParser::parse_expression() {
  const Nesting nesting(*this);
  ExpressionPtr expression = parse_or();
  while (skip_name("if")) {
    std::vector<ExpressionPtr> parts;
    parts.push_back(std::move(expression));
    parts.push_back(parse_or());
    parts.push_back(skip_name("else") ? parse_expression() : nullptr);
    expression = make(Kind::kConditional, std::move(parts));
  }
  return expression;
}

ExpressionPtr ExpressionParser::parse_or() {
  ExpressionPtr left = parse_and();
  while (skip_name("or")) left = make_pair(Kind::kOr, std::move(left), parse_and());
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  ExpressionPtr left = parse_not();
  while (skip_name("and")) left = make_pair(Kind::kAnd, std::move(left), parse_not());
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  if (!skip_name("not")) return parse_compare();
  const Nesting nesting(*this);
  std::vector<ExpressionPtr> parts;
  parts.push_back(parse_not());
  return make(Kind::kNot, std::move(parts));
}

ExpressionPtr ExpressionParser::parse_compare() {
  ExpressionPtr first = parse_sum();
  std::vector<ExpressionPtr> parts;
  std::vector<std::string> operators;
  for (;;) {
    std::string sign;
    for (const std::string_view known : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (at_operator(known)) sign = known;
    }
    if (at_name("in")) {
      sign = "in";
    } else if (at_name("not") && peek(1).kind == TokenKind::kName && peek(1).text == "in") {
      sign = "not in";
      take();
    }
    if (sign.empty()) break;
    take();
    operators.push_back(std::move(sign));
    parts.push_back(parse_sum());
  }
  if (operators.empty()) return first;
  parts.insert(parts.begin(), std::move(first));
  ExpressionPtr compare = make(Kind::kCompare, std::move(parts));
  compare->operators = std::move(operators);
  return compare;
}

ExpressionPtr ExpressionParser::parse_sum() {
  ExpressionPtr left = parse_concatenation();
  while (at_operator("+") || at_operator("-")) {
    std::string sign = take().text;
    left = make_pair(Kind::kBinary, std::move(left), parse_concatenation());
    left->text = std::move(sign);
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_concatenation() {
  ExpressionPtr first = parse_product();
  if (!at_operator("~")) return first;
  std::vector<ExpressionPtr> parts;
  parts.push_back(std::move(first));
  while (skip_operator("~")) parts.push_back(parse_product());
  return make(Kind::kConcatenate, std::move(parts));
}

ExpressionPtr ExpressionParser::parse_product() {
  ExpressionPtr left = parse_power();
  while (at_operator("*") || at_operator("/") || at_operator("//") || at_operator("%")) {
    std::string sign = take().text;
    left = make_pair(Kind::kBinary, std::move(left), parse_power());
    left->text = std::move(sign);
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_power() {
  ExpressionPtr left = parse_unary(true);
  while (skip_operator("**")) {
    left = make_pair(Kind::kBinary, std::move(left), parse_unary(true));
    left->text = "**";
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filters) {
  const Nesting nesting(*this);
  ExpressionPtr expression;
  if (at_operator("-") || at_operator("+")) {
    const Kind kind = take().text == "-" ? Kind::kNegate : Kind::kPlus;
    std::vector<ExpressionPtr> parts;
    parts.push_back(parse_unary(false));
    expression = make(kind, std::move(parts));
  } else {
    expression = parse_primary();
  }
  expression = parse_postfix(std::move(expression));
  return with_filters ? parse_filters(std::move(expression)) : std::move(expression);
}

ExpressionPtr ExpressionParser::parse_primary() {
  const Token token = peek();
  switch (token.kind) {
    case TokenKind::kName: {
      take();
      if (token.text == "true" || token.text == "True") return make_constant(true);
      if (token.text == "false" || token.text == "False") return make_constant(false);
      if (token.text == "none" || token.text == "None") return make_constant(nullptr);
      ExpressionPtr name = make(Kind::kName);
      name->line = token.line;
      name->text = token.text;
      return name;
    }
    case TokenKind::kString: {
      std::string text;
      while (peek().kind == TokenKind::kString) text += take().text;  // adjacent strings are joined
      return make_constant(std::move(text));
    }
    case TokenKind::kInteger:
      take();
      return make_constant(token.integer);
    case TokenKind::kFloat:
      take();
      return make_constant(token.number);
    case TokenKind::kOperator:
      if (token.text == "(" || token.text == "[") return parse_brackets();
      if (token.text == "{") return parse_dict();
      break;
    default:
      break;
  }
  fail_here("expected an expression, found \"" + token.text + "\"");
}

ExpressionPtr ExpressionParser::parse_brackets() {
  const bool is_list = take().text == "[";
  const std::string_view end = is_list ? "]" : ")";
  std::vector<ExpressionPtr> parts;
  bool has_comma = false;
  while (!at_operator(end)) {
    parts.push_back(parse_expression());
    if (!skip_operator(",")) break;
    has_comma = true;
  }
  expect_operator(end);
  if (!is_list && !has_comma && parts.size() == 1) return std::move(parts.front());
  return make(is_list ? Kind::kList : Kind::kTuple, std::move(parts));
}

ExpressionPtr ExpressionParser::parse_dict() {
  take();
  std::vector<ExpressionPtr> parts;
  while (!at_operator("}")) {
    parts.push_back(parse_expression());
    expect_operator(":");
    parts.push_back(parse_expression());
    if (!skip_operator(",")) break;
  }
  expect_operator("}");
  return make(Kind::kDict, std::move(parts));
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr expression) {
  for (;;) {
    if (skip_operator(".")) {
      std::vector<ExpressionPtr> parts;
      parts.push_back(std::move(expression));
      if (peek().kind == TokenKind::kInteger) {
        parts.push_back(make_constant(take().integer));
        expression = make(Kind::kSubscript, std::move(parts));
        continue;
      }
      std::string name = take_name("a member's name");
      expression = make(Kind::kMember, std::move(parts));
      expression->text = std::move(name);
    } else if (at_operator("[")) {
      expression = parse_subscript(std::move(expression));
    } else if (at_operator("(")) {
      expression = parse_call(std::move(expression));
    } else {
      return expression;
    }
  }
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr of) {
  take();
  std::vector<ExpressionPtr> parts;
  parts.push_back(std::move(of));
  parts.push_back(at_operator(":") ? nullptr : parse_tuple());
  bool is_slice = false;
  while (parts.size() < 4 && skip_operator(":")) {
    is_slice = true;
    parts.push_back(at_operator(":") || at_operator("]") ? nullptr : parse_expression());
  }
  expect_operator("]");
  if (is_slice) parts.resize(4);
  return make(is_slice ? Kind::kSlice : Kind::kSubscript, std::move(parts));
}

void ExpressionParser::parse_arguments(Expression& call) {
  expect_operator("(");
  while (!at_operator(")")) {
    if (skip_operator("**")) {
      call.spread_names = parse_expression();
    } else if (skip_operator("*")) {
      call.spread_items = parse_expression();
    } else if (peek().kind == TokenKind::kName && peek(1).kind == TokenKind::kOperator &&
               peek(1).text == "=") {
      std::string name = take().text;
      take();
      call.named.emplace_back(std::move(name), parse_expression());
    } else {
      if (!call.named.empty()) fail_here("expected only named arguments after a named argument");
      call.parts.push_back(parse_expression());
    }
    if (!skip_operator(",")) break;
  }
  expect_operator(")");
  settle_depth(call);
}

ExpressionPtr ExpressionParser::parse_call(ExpressionPtr callee) {
  std::vector<ExpressionPtr> parts;
  parts.push_back(std::move(callee));
  ExpressionPtr call = make(Kind::kCall, std::move(parts));
  parse_arguments(*call);
  return call;
}

ExpressionPtr ExpressionParser::parse_filter(ExpressionPtr input) {
  std::string name = take_name("a filter's name");
  while (skip_operator(".")) name += "." + take_name("a filter's name");
  std::vector<ExpressionPtr> parts;
  parts.push_back(std::move(input));
  ExpressionPtr filter = make(Kind::kFilter, std::move(parts));
  filter->text = std::move(name);
  if (at_operator("(")) parse_arguments(*filter);
  return filter;
}

ExpressionPtr ExpressionParser::parse_filters(ExpressionPtr input) {
  for (;;) {
    if (skip_operator("|")) {
      input = parse_filter(std::move(input));
    } else if (input != nullptr && skip_name("is")) {
      input = parse_test(std::move(input));
    } else if (input != nullptr && at_operator("(")) {
      input = parse_call(std::move(input));
    } else {
      return input;
    }
  }
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr of) {
  const bool negated = skip_name("not");
  std::string name = take_name("a test's name");
  while (skip_operator(".")) name += "." + take_name("a test's name");
  std::vector<ExpressionPtr> parts;
  parts.push_back(std::move(of));
  ExpressionPtr test = make(Kind::kTest, std::move(parts));
  test->text = std::move(name);
  const Token& next = peek();
  if (at_operator("(")) {
    parse_arguments(*test);
  } else if (next.kind == TokenKind::kString || next.kind == TokenKind::kInteger ||
             next.kind == TokenKind::kFloat || at_operator("[") || at_operator("{") ||
             (next.kind == TokenKind::kName && next.text != "else" && next.text != "or" &&
              next.text != "and" && next.text != "is" && next.text != "if")) {
    const Nesting nesting(*this);
    test->parts.push_back(parse_postfix(parse_primary()));
    settle_depth(*test);
  }
  if (!negated) return test;
  parts.clear();
  parts.push_back(std::move(test));
  return make(Kind::kNot, std::move(parts));
}

}  // namespace vesper::chat
