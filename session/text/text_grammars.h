// Grammars of answers. In: a grammar of a request and its prompt. Out: a constraint for
// llm/generation. Used by TextSession.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "llm/generation/grammar_constraint.h"
#include "llm/grammar/grammar_options.h"
#include "session/text/text_model.h"

namespace vesper {

// The grammars of a model's answers. One thread at a time uses it.
class TextGrammars {
 public:
  explicit TextGrammars(std::shared_ptr<const TextModel> model);

  // The constraint of an answer to `prompt`; the model must outlive it. Throws like
  // compile_grammar(), and Error(kModel) if the model has no tokenizer.
  GrammarConstraint constraint(const GrammarOptions& options, std::span<const int32_t> prompt);

 private:
  std::shared_ptr<const TextModel> model_;
  GrammarCache cache_;
};

}  // namespace vesper
