// Cuts the source of a template into text and the tokens of its tags, white space between them
// settled as Jinja does with trim_blocks and lstrip_blocks: how Hugging Face's transformers read
// chat templates.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vesper::chat {

enum class TokenKind {
  kText,         // outside of tags
  kBeginOutput,  // {{
  kEndOutput,    // }}
  kBeginBlock,   // {%
  kEndBlock,     // %}
  kName,
  kString,  // escapes undone
  kInteger,
  kFloat,
  kOperator,  // in `text`: + == [ and so on
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  int64_t integer = 0;
  double number = 0;
  uint32_t line = 1;
};

// Ends with a kEnd. Throws Error(kModel) naming the line.
std::vector<Token> tokens_of_template(std::string_view source);

}  // namespace vesper::chat
