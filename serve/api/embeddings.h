// POST /v1/embeddings, as OpenAI's API describes it.
#pragma once

#include "serve/api/api_request.h"

namespace vesper {

// Reads the body, waits for the vectors, and responds. Throws ApiError and ConnectionLost.
void embeddings(const ApiRequest& request);

}  // namespace vesper
