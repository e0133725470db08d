// The fields that chat completions and completions share: sampling, limits, stops, biases, forms.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/api/api_request.h"
#include "serve/api/request_fields.h"
#include "serve/models/text_host.h"

namespace vesper {

// What one request asks for.
struct AnswerRequest {
  std::vector<std::vector<int32_t>> prompts = {};  // token ids; one for a chat
  TextOptions options = {};
  uint32_t n_choices = 1;  // of each prompt
  bool is_streamed = false, has_usage_event = false;
  bool has_logprobs = false;
};

// Reads them into `request`. Throws ApiError.
void read_answer_options(RequestFields& fields, AnswerRequest& request);

// The grammar of "response_format"; absent: any text. Throws ApiError.
std::optional<GrammarOptions> read_response_format(RequestFields& fields);

// "stop", "length": why an answer ended, as OpenAI's API names it.
std::string_view finish_reason(AnswerEnd end);

// Queues an answer for each choice of each prompt, in this order. Throws ApiError if the queue is
// full or a prompt is longer than the context.
std::shared_ptr<EventQueue<AnswerEvent>> push_answers(const ApiRequest& request, TextHost& host,
                                                      const AnswerRequest& asked);

// Tokens of a request.
struct Usage {
  uint64_t n_prompt = 0, n_cached = 0, n_answer = 0;
  void add(const TextAnswer& answer, bool is_first_of_prompt);
  Json json() const;
};

}  // namespace vesper
