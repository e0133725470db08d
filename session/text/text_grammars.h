// Grammars of answers. In: a grammar, a schema or an expression as text. Out: constraints for
// llm/generation. Used by TextSession; programs check a grammar before they load a model.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "llm/generation/grammar_constraint.h"
#include "session/text/text_model.h"

namespace vesper {

enum class GrammarNotation {
  kGbnf,        // llama.cpp's notation (llm/grammar/gbnf.h)
  kJsonSchema,  // a JSON document
  kJson,        // any JSON value; the text is empty
  kRegex,       // an expression that the whole answer matches
};

struct GrammarOptions {
  GrammarNotation notation = GrammarNotation::kGbnf;
  std::string text = {};
  // The grammar begins after this text of the answer; empty: at once. Absent: after thinking, if
  // the prompt or the model's first token begins it, else at once.
  std::optional<std::string> after = {};
};

// Throws Error(kUsage) that names the setting ("grammar", "json schema" or "regex"), the place and
// what was expected.
CompiledGrammar compile_grammar(const GrammarOptions& options);

// The grammars of a model's answers. The last ones are kept, with their masks. One thread at a time
// uses it.
class TextGrammars {
 public:
  // The constraint of an answer to `prompt`. Throws like compile_grammar(), and Error(kModel) if
  // the model has no tokenizer. The model must outlive the constraint.
  GrammarConstraint constraint(const TextModel& model, const GrammarOptions& options,
                               std::span<const int32_t> prompt);

 private:
  struct Kept {
    GrammarNotation notation;
    std::string text;
    std::shared_ptr<const GrammarMasks> masks;
  };
  const Kept& find(const GrammarOptions& options);

  std::shared_ptr<const TokenVocabulary> vocabulary_;  // made for the first grammar
  std::list<Kept> kept_;                               // the last used one first
};

}  // namespace vesper
