// A chat on a terminal: lines of a person, answers of the model, commands.
#pragma once

#include "cli/generate/options.h"
#include "session/text_session.h"

namespace vesper {

// Reads messages until the person ends the chat. Throws Error(kModel) if the model has no chat
// template.
void run_chat(TextSession& session, const GenerateArguments& arguments);

}  // namespace vesper
