#include "session/text/text_options.h"

#include <cmath>
#include <random>

namespace vesper {
namespace {

template <class T, class Value>
void check_given(const std::string& setting, const Bounds<T>& bounds,
                 const std::optional<Value>& value) {
  // Both are rounded to the type of the value, so that each bound is valid: float(0.01) < 0.01.
  const auto rounded = [](T bound) { return static_cast<T>(static_cast<Value>(bound)); };
  if (value) {
    check_bounds(setting, {rounded(bounds.low), rounded(bounds.high)}, static_cast<T>(*value));
  }
}

void check_sampling(const SamplingOptions& sampling) {
  check_given("temperature", bounds::kTemperature, sampling.temperature);
  check_given("top k", bounds::kTopK, sampling.top_k);
  check_given("top p", bounds::kProbability, sampling.top_p);
  check_given("min p", bounds::kProbability, sampling.min_p);
  check_given("typical p", bounds::kProbability, sampling.typical_p);
  check_given("repetition penalty", bounds::kRepetitionPenalty, sampling.repetition_penalty);
  check_given("frequency penalty", bounds::kPenalty, sampling.frequency_penalty);
  check_given("presence penalty", bounds::kPenalty, sampling.presence_penalty);
  check_given("penalty window", bounds::kPenaltyWindow, sampling.penalty_window);
  check_given("no repeat ngram size", bounds::kNoRepeatNgramSize, sampling.no_repeat_ngram_size);
}

void check_bias(const std::vector<std::pair<int32_t, float>>& list) {
  for (const auto& [id, bias] : list) {
    check_setting(!std::isnan(bias), "logit bias", "numbers, found nan");
  }
}

}  // namespace

void check_options(const TextSessionOptions& options) {
  check_weight_options(options.weights);
  if (options.threads != 0) check_bounds("threads", bounds::kThreads, options.threads);
  if (options.context != 0) check_bounds("context", bounds::kContext, options.context);
  check_bounds("slots", bounds::kSlots, options.n_slots);
  check_bounds("beam size", bounds::kBeamSize, options.beam_size);
  check_bounds("length penalty", bounds::kTextLengthPenalty, options.length_penalty);
  check_setting(options.speculate == Speculate::kOff || options.beam_size == 1, "speculate",
                "off with a beam size above 1, found " + std::to_string(options.beam_size));
  if (options.draft) {
    check_setting(options.beam_size == 1, "draft",
                  "none with a beam size above 1, found " + std::to_string(options.beam_size));
    check_setting(options.speculate == Speculate::kOff, "draft",
                  "none with another source of drafts");
  }
  check_bias(options.logit_bias);
}

void check_options(const TextOptions& options, const TextSessionOptions& session) {
  check_sampling(options.sampling);
  if (options.max_tokens) check_bounds("max tokens", bounds::kAnswerTokens, *options.max_tokens);
  check_bounds("logprobs", bounds::kTopLogprobs, options.top_logprobs);
  check_bias(options.logit_bias);
  for (const std::string& stop : options.stops) {
    check_setting(!stop.empty(), "stop", "a text, found an empty one");
  }
  if (session.beam_size == 1) return;
  const std::string without = "with a beam size of 1, found " + std::to_string(session.beam_size);
  check_setting(options.sampling.temperature.value_or(0) == 0, "temperature",
                "0, or above " + without);
  check_setting(options.top_logprobs == 0, "logprobs", "0, or more " + without);
  check_setting(!options.context_shift, "context shift", without);
  check_setting(!options.grammar, "grammar", without);
}

Sampling resolve_sampling(const SamplingOptions& options, const Sampling& defaults,
                          const TextSessionOptions& session) {
  Sampling sampling = defaults;
  const auto take = [](auto& to, const auto& from) { to = from.value_or(to); };
  if (session.beam_size > 1) sampling.temperature = 0;
  take(sampling.temperature, options.temperature);
  take(sampling.top_k, options.top_k);
  take(sampling.typical_p, options.typical_p);
  take(sampling.top_p, options.top_p);
  take(sampling.min_p, options.min_p);
  take(sampling.repetition_penalty, options.repetition_penalty);
  take(sampling.frequency_penalty, options.frequency_penalty);
  take(sampling.presence_penalty, options.presence_penalty);
  take(sampling.penalty_window, options.penalty_window);
  take(sampling.no_repeat_ngram_size, options.no_repeat_ngram_size);
  if (options.seed) {
    sampling.seed = *options.seed;
  } else if (sampling.temperature > 0) {
    sampling.seed = std::random_device()();
  }
  check_setting(session.allows_filters || !sampling.has_filters(), "filters",
                "a session that allows them");
  check_setting(session.allows_penalties || !sampling.has_penalties(), "penalties",
                "a session that allows them");
  return sampling;
}

uint32_t seed_of_prompt(uint32_t seed, uint64_t index) {
  return index == 0 ? seed : mix_bits(seed + static_cast<uint32_t>(index) * kNoiseStride);
}

}  // namespace vesper
