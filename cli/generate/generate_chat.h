// `generate` on a terminal without a prompt: a conversation, line by line.
#pragma once

#include "cli/generate/generate_run.h"
#include "cli/generate/options.h"
#include "cli/generate/text_model.h"

namespace vesper {

// Talks with the user until the end of input or /exit. Standard input and output are a terminal,
// and the model is loaded. Throws Error(kModel) if it has no chat template.
void run_chat(TextModel& model, const GenerateArguments& arguments);

}  // namespace vesper
