#include "session/text/text_drafts.h"

#include <algorithm>
#include <string>

#include "llm/generation/model_drafts.h"
#include "llm/generation/ngram_drafts.h"

namespace vesper {
namespace {

// Most differences of two models' numbers of tokens: both pad a vocabulary to multiples.
constexpr uint32_t kMostPadding = 256;

std::string token_text(const TextTokenizer& tokenizer, int32_t id) {
  return "'" + std::string(tokenizer.spelling_of(id)) + "'" +
         (tokenizer.is_special(id) ? " (special)" : "");
}

void check_same_tokens(const TextTokenizer& tokenizer, const TextTokenizer& draft) {
  const auto [fewer, more] = std::minmax({tokenizer.n_vocab(), draft.n_vocab()});
  check_setting(more - fewer <= kMostPadding, "draft",
                "a model with the same " + std::to_string(tokenizer.n_vocab()) + " tokens, found " +
                    std::to_string(draft.n_vocab()));
  for (int32_t id = 0; id < static_cast<int32_t>(fewer); ++id) {
    if (tokenizer.spelling_of(id) == draft.spelling_of(id) &&
        tokenizer.is_special(id) == draft.is_special(id)) {
      continue;
    }
    check_setting(false, "draft",
                  "a model with the same tokens, found " + token_text(draft, id) + " for token " +
                      std::to_string(id) + ", " + token_text(tokenizer, id));
  }
}

}  // namespace

std::unique_ptr<DraftSource> open_drafts(Device& device, const TextModel& model, Compute compute,
                                         const GeneratorOptions& generator,
                                         const TextSessionOptions& options) {
  if (options.speculate == Speculate::kNgram) return std::make_unique<NgramDrafts>();
  if (!options.draft) return nullptr;
  const TextModel& draft = *options.draft;
  check_same_tokens(model.require_tokenizer(), draft.require_tokenizer());
  GeneratorOptions wanted = generator;
  wanted.resumes = true;
  wanted.n_ctx = std::min(wanted.n_ctx, draft.max_ctx());
  auto drafts =
      std::make_unique<ModelDrafts>(device, *draft.weights(), compute, wanted, model.n_vocab());
  drafts->set_stop_ids(model.require_tokenizer().stop_ids());
  return drafts;
}

}  // namespace vesper
