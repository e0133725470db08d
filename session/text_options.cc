#include "session/text_options.h"

#include "error/error.h"

namespace vesper {
namespace {

void require_setting(bool condition, const std::string& setting, const std::string& expected) {
  if (!condition) throw Error(ErrorKind::kUsage, setting, "expected " + expected);
}

void require_range(const std::string& setting, double value, double low, double high) {
  if (value >= low && value <= high) return;
  const auto text = [](double number) {
    std::string digits = std::to_string(number);
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.ends_with('.')) digits.pop_back();
    return digits;
  };
  require_setting(false, setting, text(low) + " to " + text(high) + ", found " + text(value));
}

void check_sampling(const Sampling& sampling) {
  require_range("temperature", sampling.temperature, 0, 100);
  require_range("top p", sampling.top_p, 0, 1);
  require_range("min p", sampling.min_p, 0, 1);
  require_range("typical p", sampling.typical_p, 0, 1);
  require_range("repetition penalty", sampling.repetition_penalty, 0.01, 100);
  require_range("frequency penalty", sampling.frequency_penalty, -100, 100);
  require_range("presence penalty", sampling.presence_penalty, -100, 100);
}

}  // namespace

void check_options(const TextOptions& options, const TextSessionOptions& session) {
  check_sampling(options.sampling);
  require_setting(!options.max_tokens || *options.max_tokens > 0, "max tokens",
                  "1 or more, found 0");
  for (const std::string& stop : options.stops) {
    require_setting(!stop.empty(), "stop", "a text, found an empty one");
  }
  require_setting(session.allows_filters || !options.sampling.has_filters(), "filters",
                  "a session that allows them");
  require_setting(session.allows_penalties || !options.sampling.has_penalties(), "penalties",
                  "a session that allows them");
  if (session.beam_size == 1) return;
  const std::string without = "with a beam size of 1, found " + std::to_string(session.beam_size);
  require_setting(options.sampling.temperature == 0, "temperature", "0, or above " + without);
  require_setting(options.top_logprobs == 0, "logprobs", "0, or more " + without);
  require_setting(!options.context_shift, "context shift", without);
}

uint32_t seed_of_prompt(uint32_t seed, uint64_t index) {
  return index == 0 ? seed : mix_bits(seed + static_cast<uint32_t>(index) * kNoiseStride);
}

}  // namespace vesper
