#include "session/text_options.h"

#include <cmath>

namespace vesper {
namespace {

void check_sampling(const Sampling& sampling) {
  check_bounds("temperature", bounds::kTemperature, sampling.temperature);
  check_bounds("top k", bounds::kTopK, sampling.top_k);
  check_bounds("top p", bounds::kProbability, sampling.top_p);
  check_bounds("min p", bounds::kProbability, sampling.min_p);
  check_bounds("typical p", bounds::kProbability, sampling.typical_p);
  check_bounds("repetition penalty", bounds::kRepetitionPenalty, sampling.repetition_penalty);
  check_bounds("frequency penalty", bounds::kPenalty, sampling.frequency_penalty);
  check_bounds("presence penalty", bounds::kPenalty, sampling.presence_penalty);
}

}  // namespace

void check_options(const TextSessionOptions& options) {
  if (options.threads != 0) check_bounds("threads", bounds::kThreads, options.threads);
  if (options.context != 0) check_bounds("context", bounds::kContext, options.context);
  check_bounds("slots", bounds::kSlots, options.n_slots);
  check_bounds("beam size", bounds::kBeamSize, options.beam_size);
  check_bounds("length penalty", bounds::kTextLengthPenalty, options.length_penalty);
  for (const auto& [id, bias] : options.logit_bias) {
    check_setting(!std::isnan(bias), "logit bias", "numbers, found nan");
  }
}

void check_options(const TextOptions& options, const TextSessionOptions& session) {
  check_sampling(options.sampling);
  if (options.max_tokens) check_bounds("max tokens", bounds::kAnswerTokens, *options.max_tokens);
  check_bounds("logprobs", bounds::kTopLogprobs, options.top_logprobs);
  for (const std::string& stop : options.stops) {
    check_setting(!stop.empty(), "stop", "a text, found an empty one");
  }
  check_setting(session.allows_filters || !options.sampling.has_filters(), "filters",
                "a session that allows them");
  check_setting(session.allows_penalties || !options.sampling.has_penalties(), "penalties",
                "a session that allows them");
  if (session.beam_size == 1) return;
  const std::string without = "with a beam size of 1, found " + std::to_string(session.beam_size);
  check_setting(options.sampling.temperature == 0, "temperature", "0, or above " + without);
  check_setting(options.top_logprobs == 0, "logprobs", "0, or more " + without);
  check_setting(!options.context_shift, "context shift", without);
}

uint32_t seed_of_prompt(uint32_t seed, uint64_t index) {
  return index == 0 ? seed : mix_bits(seed + static_cast<uint32_t>(index) * kNoiseStride);
}

}  // namespace vesper
