// A chat on a terminal: messages, answers and commands.
#pragma once

#include "cli/generate/options.h"
#include "session/text/text_session.h"

namespace vesper {

// Reads messages until the user ends the chat. Throws Error(kModel) if the model has no chat
// template.
void run_chat(TextSession& session, const GenerateArguments& arguments);

}  // namespace vesper
