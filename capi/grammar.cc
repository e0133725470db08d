#include "capi/grammar.h"

#include <vesper/base.h>

#include <string>

#include "capi/errors.h"
#include "error/error.h"

namespace vesper::capi {

std::optional<GrammarOptions> read_grammar(int notation, const char* text, const char* after) {
  GrammarOptions grammar;
  switch (notation) {
    case VESPER_GRAMMAR_NONE:
      if (text == nullptr && after == nullptr) return std::nullopt;
      throw Error(ErrorKind::kUsage, "grammar notation", "expected the notation of the grammar");
    case VESPER_GRAMMAR_GBNF:
      grammar.notation = GrammarNotation::kGbnf;
      break;
    case VESPER_GRAMMAR_JSON_SCHEMA:
      grammar.notation = GrammarNotation::kJsonSchema;
      break;
    case VESPER_GRAMMAR_JSON:
      grammar.notation = GrammarNotation::kJson;
      break;
    case VESPER_GRAMMAR_REGEX:
      grammar.notation = GrammarNotation::kRegex;
      break;
    default:
      throw Error(ErrorKind::kUsage, "grammar notation",
                  "expected 0 to 4, found " + std::to_string(notation));
  }
  if (grammar.notation != GrammarNotation::kJson) grammar.text = required("grammar", text);
  if (after != nullptr) grammar.after = after;
  return grammar;
}

}  // namespace vesper::capi
