#include "session/text/text_grammars.h"

#include <algorithm>

#include "llm/grammar/gbnf.h"
#include "llm/grammar/json_schema/json_schema.h"
#include "llm/grammar/regex/regex.h"

namespace vesper {
namespace {

constexpr size_t kMostKept = 16;

GrammarStart start_of(const TextModel& model, const GrammarOptions& options,
                      std::span<const int32_t> prompt) {
  if (options.after) return {.after = *options.after};
  if (model.begins_thinking(prompt)) return {.after = "</think>"};
  if (model.ends_thinking(prompt)) return {};
  // A model may begin to think by itself.
  const int32_t opening = model.tokenizer()->find("<think>");
  return opening < 0 ? GrammarStart{} : GrammarStart{.after = "</think>", .opening = opening};
}

}  // namespace

CompiledGrammar compile_grammar(const GrammarOptions& options) {
  switch (options.notation) {
    case GrammarNotation::kJsonSchema:
      return CompiledGrammar(grammar_of_json_schema(options.text));
    case GrammarNotation::kJson:
      return CompiledGrammar(json_grammar());
    case GrammarNotation::kRegex:
      return CompiledGrammar(grammar_of_regex(options.text));
    case GrammarNotation::kGbnf:
      break;
  }
  return CompiledGrammar(parse_gbnf(options.text));
}

GrammarConstraint TextGrammars::constraint(const TextModel& model, const GrammarOptions& options,
                                           std::span<const int32_t> prompt) {
  if (!vocabulary_) {
    vocabulary_ = std::make_shared<const TokenVocabulary>(model.require_tokenizer());
  }
  return GrammarConstraint(GrammarMatcher(find(options).masks), model.tokenizer(),
                           start_of(model, options, prompt));
}

const TextGrammars::Kept& TextGrammars::find(const GrammarOptions& options) {
  const auto found = std::ranges::find_if(kept_, [&](const Kept& kept) {
    return kept.notation == options.notation && kept.text == options.text;
  });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
  } else {
    kept_.push_front({options.notation, options.text,
                      std::make_shared<const GrammarMasks>(compile_grammar(options), vocabulary_)});
    if (kept_.size() > kMostKept) kept_.pop_back();
  }
  return kept_.front();
}

}  // namespace vesper
