// A parsed chat template: expressions and statements of Jinja.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llm/chat/template_value.h"

namespace vesper::chat {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind {
    kConstant,   // value
    kName,       // text
    kList,       // parts
    kTuple,      // parts
    kDict,       // parts: key, value, key, value
    kMember,     // parts[0].text
    kSubscript,  // parts[0][parts[1]]
    kSlice,      // parts[0][parts[1]:parts[2]:parts[3]], any of the last three null
    kCall,       // parts[0](parts[1...], named)
    kFilter,     // parts[0]|text(parts[1...], named); parts[0] null in a {% filter %}
    kTest,       // parts[0] is text(parts[1...], named)
    kNegate,     // -parts[0]
    kPlus,       // +parts[0]
    kNot,
    kAnd,
    kOr,
    kBinary,       // text: + - * / // % **
    kConcatenate,  // parts, joined as text
    kCompare,      // parts[0] operators[0] parts[1] operators[1] parts[2] ...
    kConditional,  // parts[0] if parts[1] else parts[2]; parts[2] may be null
  };
  Kind kind = Kind::kConstant;
  uint32_t line = 1;
  uint32_t depth = 1;
  std::string text;
  Value value;
  std::vector<ExpressionPtr> parts;
  std::vector<std::string> operators;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr spread_items, spread_names;  // *args and **kwargs of a call
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

// What is assigned to: names, or a member of a namespace.
struct Target {
  std::vector<std::string> names;  // one, or several for unpacking
  bool is_spread = false;
  std::string member;  // of names[0]; may be empty
};

struct MacroParameter {
  std::string name;
  ExpressionPtr otherwise;  // may be null
};

struct Statement {
  enum class Kind {
    kText,         // text
    kOutput,       // expression
    kIf,           // blocks[i] for conditions[i]; a last block without condition is the else
    kFor,          // target, expression, condition, blocks[0]; blocks[1] if there was no iteration
    kSet,          // target, expression
    kSetBlock,     // target, blocks[0], through the filters of expression if any
    kMacro,        // text is its name; parameters, blocks[0]
    kCallBlock,    // calls expression with a caller of parameters and blocks[0]
    kFilterBlock,  // expression is a chain of filters of blocks[0]
    kWith,         // assignments, blocks[0]
    kPart,         // blocks[0] unchanged: {% generation %}
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kText;
  uint32_t line = 1;
  std::string text;
  Target target;
  ExpressionPtr expression, condition;
  std::vector<ExpressionPtr> conditions;
  std::vector<Block> blocks;
  std::vector<MacroParameter> parameters;
  std::vector<std::pair<std::string, ExpressionPtr>> assignments;
};

// Throws Error(kModel) naming the line. At most 150 levels of nesting.
Block parse_template(std::string_view source);

}  // namespace vesper::chat
