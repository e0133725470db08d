#include "session/text_options.h"

namespace vesper {
namespace {

void check_sampling(const Sampling& sampling) {
  check_bounds("temperature", text_bounds::kTemperature, sampling.temperature);
  check_bounds("top p", text_bounds::kProbability, sampling.top_p);
  check_bounds("min p", text_bounds::kProbability, sampling.min_p);
  check_bounds("typical p", text_bounds::kProbability, sampling.typical_p);
  check_bounds("repetition penalty", text_bounds::kRepetitionPenalty, sampling.repetition_penalty);
  check_bounds("frequency penalty", text_bounds::kPenalty, sampling.frequency_penalty);
  check_bounds("presence penalty", text_bounds::kPenalty, sampling.presence_penalty);
}

}  // namespace

void check_options(const TextOptions& options, const TextSessionOptions& session) {
  check_sampling(options.sampling);
  check_setting(!options.max_tokens || *options.max_tokens > 0, "max tokens", "1 or more, found 0");
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
