// The drafts of a text session: from earlier text, or from a smaller model. In: the settings. Out:
// a DraftSource for the session's generator. Used by TextSession.
#pragma once

#include <memory>

#include "llm/generation/draft_source.h"
#include "llm/generation/generator.h"
#include "llm/table/device.h"
#include "session/text/text_options.h"

namespace vesper {

// Null if nothing is drafted. A draft model is loaded on the same device, with the generator's
// options, and drafts as far as its own context reaches. Throws Error(kUsage) for the setting
// "draft", naming the first different token, if it has other tokens than `model`; its vocabulary
// may be padded differently. Throws Error(kModel) if one of them has no tokenizer.
std::unique_ptr<DraftSource> open_drafts(Device& device, const TextModel& model, Compute compute,
                                         const GeneratorOptions& generator,
                                         const TextSessionOptions& options);

}  // namespace vesper
