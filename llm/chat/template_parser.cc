#include <algorithm>
#include <initializer_list>

#include "llm/chat/template_expressions.h"

namespace vesper::chat {
namespace {

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Block run() {
    Block block = parse_block({});
    if (peek().kind != TokenKind::kEnd) fail_here("expected text or a tag");
    return block;
  }

 private:
  bool at_tag_of(std::initializer_list<std::string_view> names) const {
    return peek().kind == TokenKind::kBeginBlock && peek(1).kind == TokenKind::kName &&
           std::find(names.begin(), names.end(), peek(1).text) != names.end();
  }

  // Statements up to a tag with one of these names, or the end.
  Block parse_block(std::initializer_list<std::string_view> ends) {
    const Nesting nesting(*this);
    Block block;
    while (peek().kind != TokenKind::kEnd && !at_tag_of(ends)) {
      auto statement = std::make_unique<Statement>();
      statement->line = peek().line;
      if (peek().kind == TokenKind::kText) {
        statement->kind = Statement::Kind::kText;
        statement->text = take().text;
      } else if (peek().kind == TokenKind::kBeginOutput) {
        take();
        statement->kind = Statement::Kind::kOutput;
        statement->expression = parse_tuple();
        expect_kind(TokenKind::kEndOutput, "}}");
      } else {
        expect_kind(TokenKind::kBeginBlock, "{%");
        parse_statement(*statement);
      }
      block.push_back(std::move(statement));
    }
    return block;
  }

  void end_tag() { expect_kind(TokenKind::kEndBlock, "%}"); }

  void parse_end(std::string_view name) {
    expect_kind(TokenKind::kBeginBlock, std::string("{% ").append(name).append(" %}"));
    expect_name(name);
    end_tag();
  }

  void parse_statement(Statement& statement) {
    const std::string name = take_name("the name of a tag");
    if (name == "if") return parse_if(statement);
    if (name == "for") return parse_for(statement);
    if (name == "set") return parse_set(statement);
    if (name == "macro") return parse_macro(statement);
    if (name == "call") return parse_call_block(statement);
    if (name == "filter") return parse_filter_block(statement);
    if (name == "with") return parse_with(statement);
    if (name == "generation") {
      statement.kind = Statement::Kind::kPart;
      end_tag();
      statement.blocks.push_back(parse_block({"endgeneration"}));
      return parse_end("endgeneration");
    }
    if (name == "break" || name == "continue") {
      if (n_loops_ == 0) fail_here("expected " + name + " inside a loop");
      statement.kind = name == "break" ? Statement::Kind::kBreak : Statement::Kind::kContinue;
      return end_tag();
    }
    fail_here("expected a known tag, found \"" + name + "\"");
  }

  void parse_if(Statement& statement) {
    statement.kind = Statement::Kind::kIf;
    for (bool more = true; more;) {
      statement.conditions.push_back(parse_tuple());
      end_tag();
      statement.blocks.push_back(parse_block({"elif", "else", "endif"}));
      more = at_tag_of({"elif"});
      if (more) skip_to_expression();
    }
    if (at_tag_of({"else"})) {
      skip_to_expression();
      end_tag();
      statement.blocks.push_back(parse_block({"endif"}));
    }
    parse_end("endif");
  }

  void skip_to_expression() {
    take();
    take();
  }

  Target parse_target() {
    Target target;
    const bool bracketed = skip_operator("(");
    do {
      if (bracketed && at_operator(")")) break;
      target.names.push_back(take_name("a name to assign to"));
    } while (skip_operator(",") && (target.is_spread = true) && peek().kind == TokenKind::kName &&
             peek().text != "in");
    if (bracketed) expect_operator(")");
    if (!target.is_spread && skip_operator(".")) target.member = take_name("a member's name");
    return target;
  }

  void parse_for(Statement& statement) {
    statement.kind = Statement::Kind::kFor;
    statement.target = parse_target();
    if (!statement.target.member.empty()) fail_here("expected loop variables");
    expect_name("in");
    statement.expression = parse_tuple_without_condition();
    if (skip_name("if")) statement.condition = parse_expression();
    if (at_name("recursive")) fail_here("expected a loop that is not recursive");
    end_tag();
    ++n_loops_;
    statement.blocks.push_back(parse_block({"else", "endfor"}));
    --n_loops_;
    if (at_tag_of({"else"})) {
      skip_to_expression();
      end_tag();
      statement.blocks.push_back(parse_block({"endfor"}));
    }
    parse_end("endfor");
  }

  void parse_set(Statement& statement) {
    statement.target = parse_target();
    if (skip_operator("=")) {
      statement.kind = Statement::Kind::kSet;
      statement.expression = parse_tuple();
      return end_tag();
    }
    statement.kind = Statement::Kind::kSetBlock;
    if (at_operator("|")) statement.expression = parse_filters(nullptr);
    end_tag();
    statement.blocks.push_back(parse_block({"endset"}));
    parse_end("endset");
  }

  void parse_parameters(Statement& statement) {
    expect_operator("(");
    while (!at_operator(")")) {
      MacroParameter parameter;
      parameter.name = take_name("a parameter");
      if (skip_operator("=")) parameter.otherwise = parse_expression();
      statement.parameters.push_back(std::move(parameter));
      if (!skip_operator(",")) break;
    }
    expect_operator(")");
  }

  // The body of a macro or caller is not part of a surrounding loop.
  Block parse_body(std::string_view end) {
    const uint32_t n_loops = n_loops_;
    n_loops_ = 0;
    Block block = parse_block({end});
    n_loops_ = n_loops;
    parse_end(end);
    return block;
  }

  void parse_macro(Statement& statement) {
    statement.kind = Statement::Kind::kMacro;
    statement.text = take_name("a macro's name");
    parse_parameters(statement);
    end_tag();
    statement.blocks.push_back(parse_body("endmacro"));
  }

  void parse_call_block(Statement& statement) {
    statement.kind = Statement::Kind::kCallBlock;
    if (at_operator("(")) parse_parameters(statement);
    statement.expression = parse_expression();
    if (statement.expression->kind != Expression::Kind::kCall) fail_here("expected a call");
    end_tag();
    statement.blocks.push_back(parse_body("endcall"));
  }

  void parse_filter_block(Statement& statement) {
    statement.kind = Statement::Kind::kFilterBlock;
    statement.expression = parse_filter(nullptr);
    if (at_operator("|")) statement.expression = parse_filters(std::move(statement.expression));
    end_tag();
    statement.blocks.push_back(parse_block({"endfilter"}));
    parse_end("endfilter");
  }

  void parse_with(Statement& statement) {
    statement.kind = Statement::Kind::kWith;
    while (peek().kind != TokenKind::kEndBlock) {
      std::string name = take_name("a name");
      expect_operator("=");
      statement.assignments.emplace_back(std::move(name), parse_expression());
      if (!skip_operator(",")) break;
    }
    end_tag();
    statement.blocks.push_back(parse_block({"endwith"}));
    parse_end("endwith");
  }

  uint32_t n_loops_ = 0;
};

}  // namespace

Block parse_template(std::string_view source) { return Parser(tokens_of_template(source)).run(); }

}  // namespace vesper::chat
