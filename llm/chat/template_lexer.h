// Splits the source of a template into text and the tokens of its tags. White space between them is
// removed like Jinja's trim_blocks and lstrip_blocks, as Hugging Face's transformers do.
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
  kString,  // without escapes
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

// The last token is kEnd. Throws Error(kModel) naming the line.
std::vector<Token> tokens_of_template(std::string_view source);

}  // namespace vesper::chat
