// The expressions of templates, by Jinja's precedence.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "llm/chat/template_lexer.h"
#include "llm/chat/template_syntax.h"

namespace vesper::chat {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  [[noreturn]] void fail_here(const std::string& message) const;

  const Token& peek(size_t ahead = 0) const;
  Token take();
  bool at_operator(std::string_view sign) const;
  bool skip_operator(std::string_view sign);
  void expect_operator(std::string_view sign);
  bool at_name(std::string_view name) const;
  bool skip_name(std::string_view name);
  void expect_name(std::string_view name);
  std::string take_name(const std::string& what);
  void expect_kind(TokenKind kind, const std::string& what);

  // Comma-separated expressions are a tuple.
  ExpressionPtr parse_tuple() { return parse_items(true); }
  ExpressionPtr parse_tuple_without_condition() { return parse_items(false); }
  ExpressionPtr parse_expression();  // `a if b else c` too
  ExpressionPtr parse_filters(ExpressionPtr input);
  ExpressionPtr parse_filter(ExpressionPtr input);  // after the sign |

  // Counts the nesting depth of the parser; throws if it is too deep.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser);
    ~Nesting() { --parser_.nesting_; }

   private:
    ExpressionParser& parser_;
  };

 private:
  ExpressionPtr make(Expression::Kind kind, std::vector<ExpressionPtr> parts = {});
  ExpressionPtr make_pair(Expression::Kind kind, ExpressionPtr a, ExpressionPtr b);
  ExpressionPtr make_constant(Value value);
  // Called when all parts are set.
  void settle_depth(Expression& expression) const;

  ExpressionPtr parse_items(bool with_condition);
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_compare();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concatenation();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filters);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_postfix(ExpressionPtr expression);
  ExpressionPtr parse_subscript(ExpressionPtr of);
  ExpressionPtr parse_test(ExpressionPtr of);
  ExpressionPtr parse_call(ExpressionPtr callee);
  ExpressionPtr parse_brackets();
  ExpressionPtr parse_dict();
  void parse_arguments(Expression& call);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  uint32_t nesting_ = 0;
};

}  // namespace vesper::chat
