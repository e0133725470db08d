// How likely the tokens of an answer were, and which others could have been chosen.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <utility>
#include <vector>

#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;  // natural logarithm
  std::vector<std::pair<int32_t, float>>
      top;  // the likeliest tokens and their logprobs, best first
};

// The `n` likeliest tokens of logits [n_vocab] and their log-probabilities; equal ones by id.
std::vector<std::pair<int32_t, float>> likeliest_tokens(std::span<const float> logits, uint32_t n);

// A token as an object of its own: id, text, logprob, and `top` of the same if there are any.
// `tokenizer` may be null: the texts are empty then.
nlohmann::ordered_json token_json(const TextTokenizer* tokenizer, const TokenLogprob& token);

// The tokens of an answer as OpenAI's chat completions have them under "logprobs": "content" with
// "token", "logprob", "bytes" and "top_logprobs" of each token, and its "id" besides.
nlohmann::ordered_json openai_logprobs(const TextTokenizer* tokenizer,
                                       std::span<const TokenLogprob> tokens);

}  // namespace vesper
