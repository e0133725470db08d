// GET /v1/models, as OpenAI's API describes it, and the kind of each model.
#pragma once

#include <string>

#include "serve/api/api_request.h"

namespace vesper {

// Respond. The second one throws ApiError(404) if there is no model of this name.
void list_models(const ApiRequest& request);
void describe_model(const ApiRequest& request, const std::string& name);

}  // namespace vesper
