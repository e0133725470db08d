#include "llm/grammar/grammar_options.h"

#include <algorithm>

#include "llm/grammar/gbnf.h"
#include "llm/grammar/json_schema/json_schema.h"
#include "llm/grammar/regex/regex.h"

namespace vesper {
namespace {

constexpr size_t kMostKept = 16;

Grammar read_grammar(const GrammarOptions& options) {
  switch (options.notation) {
    case GrammarNotation::kJsonSchema:
      return grammar_of_json_schema(options.text);
    case GrammarNotation::kJson:
      return json_grammar();
    case GrammarNotation::kRegex:
      return grammar_of_regex(options.text);
    case GrammarNotation::kGbnf:
      break;
  }
  return parse_gbnf(options.text);
}

}  // namespace

CompiledGrammar compile_grammar(const GrammarOptions& options, LeadingSpace space) {
  Grammar grammar = read_grammar(options);
  if (space == LeadingSpace::kOptional) {
    const uint32_t text = grammar.reference(grammar.root());
    const uint32_t spaces = grammar.repeat(grammar.literal(" "), 0, 1);
    const uint32_t rule = grammar.add_rule("a space and the text");  // no reader makes such a name
    grammar.define(rule, grammar.sequence({spaces, text}));
    grammar.set_root(rule);
  }
  return CompiledGrammar(grammar);
}

const std::shared_ptr<const GrammarMasks>& GrammarCache::masks(const GrammarOptions& options) {
  const auto found = std::ranges::find_if(kept_, [&](const Kept& kept) {
    return kept.notation == options.notation && kept.text == options.text;
  });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front().masks;
  }
  if (!vocabulary_) vocabulary_ = std::make_shared<const TokenVocabulary>(make_vocabulary_());
  kept_.push_front(
      {options.notation, options.text,
       std::make_shared<const GrammarMasks>(compile_grammar(options, space_), vocabulary_)});
  if (kept_.size() > kMostKept) kept_.pop_back();
  return kept_.front().masks;
}

}  // namespace vesper
