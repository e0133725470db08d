#include "session/text/text_grammars.h"

#include <utility>

namespace vesper {
namespace {

GrammarStart start_of(const TextModel& model, const GrammarOptions& options,
                      std::span<const int32_t> prompt) {
  if (options.after) return {.after = *options.after};
  if (model.has_channels()) {
    if (!model.begins_message(prompt)) return {};
    return {.after = "<|channel|>final<|message|>"};
  }
  if (model.begins_thinking(prompt)) return {.after = "</think>"};
  if (model.ends_thinking(prompt)) return {};
  // A model may begin to think by itself.
  const int32_t opening = model.tokenizer()->find("<think>");
  return opening < 0 ? GrammarStart{} : GrammarStart{.after = "</think>", .opening = opening};
}

}  // namespace

TextGrammars::TextGrammars(std::shared_ptr<const TextModel> model)
    : model_(std::move(model)),
      cache_([&text_model = *model_] { return TokenVocabulary(text_model.require_tokenizer()); }) {}

GrammarConstraint TextGrammars::constraint(const GrammarOptions& options,
                                           std::span<const int32_t> prompt) {
  return GrammarConstraint(GrammarMatcher(cache_.masks(options)), model_->tokenizer(),
                           start_of(*model_, options, prompt));
}

}  // namespace vesper
