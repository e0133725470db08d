// POST /v1/chat/completions and /v1/completions, as OpenAI's API describes them.
#pragma once

#include "serve/api/api_request.h"

namespace vesper {

// Read the body, wait for the answers, and respond. Throw ApiError before the response begins, and
// ConnectionLost.
void chat_completions(const ApiRequest& request);
void completions(const ApiRequest& request);

}  // namespace vesper
