// POST /tokenize and /detokenize: token ids of a language model's tokenizer, as llama.cpp's server
// has them.
//
//   {"model": NAME, "content": TEXT, "add_special": true} -> {"tokens": [ID, ...]}
//   {"model": NAME, "tokens": [ID, ...]} -> {"content": TEXT}
#pragma once

#include "serve/api/api_request.h"

namespace vesper {

// Respond. Throw ApiError and ConnectionLost.
void tokenize(const ApiRequest& request);
void detokenize(const ApiRequest& request);

}  // namespace vesper
