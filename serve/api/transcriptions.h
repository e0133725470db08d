// POST /v1/audio/transcriptions and /v1/audio/translations, as OpenAI's API describes them.
#pragma once

#include "serve/api/api_request.h"

namespace vesper {

// Read the upload into an unnamed temporary file, wait for the transcript, and respond. Throw
// ApiError before the response begins, and ConnectionLost.
void transcriptions(const ApiRequest& request);
void translations(const ApiRequest& request);

}  // namespace vesper
