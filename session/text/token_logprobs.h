// Probabilities of an answer's tokens and of alternatives.
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
      top;  // most probable tokens and their log-probabilities, best first
};

// The `n` most probable tokens of logits [n_vocab] and their log-probabilities; ties by id.
std::vector<std::pair<int32_t, float>> likeliest_tokens(std::span<const float> logits, uint32_t n);

// A token as an object: id, text, logprob, and a list `top` of such objects if there are any.
// `tokenizer` may be null, for empty texts.
nlohmann::ordered_json token_json(const TextTokenizer* tokenizer, const TokenLogprob& token);

// The tokens of an answer in the format of OpenAI's "logprobs" of chat completions: "content" with
// "token", "logprob", "bytes" and "top_logprobs" of each token, plus its "id".
nlohmann::ordered_json openai_logprobs(const TextTokenizer* tokenizer,
                                       std::span<const TokenLogprob> tokens);

}  // namespace vesper
