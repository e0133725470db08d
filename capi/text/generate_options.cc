#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "capi/cancellation.h"
#include "capi/grammar.h"
#include "capi/options.h"
#include "capi/text/text.h"
#include "error/error.h"

namespace vesper::capi {
namespace {

constexpr double kModelDefault = std::numeric_limits<double>::quiet_NaN();

vesper_generate_options default_generate_options() {
  vesper_generate_options options{};
  options.size = sizeof options;
  options.temperature = options.top_p = options.min_p = options.typical_p = kModelDefault;
  options.repetition_penalty = options.frequency_penalty = options.presence_penalty = kModelDefault;
  options.top_k = options.penalty_window = options.no_repeat_ngram_size = VESPER_MODEL_DEFAULT;
  options.seed = -1;
  options.separate_thinking = 1;
  return options;
}

// Absent: the model's.
std::optional<float> given_number(double value) {
  if (std::isnan(value)) return std::nullopt;
  return static_cast<float>(value);
}
std::optional<uint32_t> given_count(uint32_t value) {
  if (value == VESPER_MODEL_DEFAULT) return std::nullopt;
  return value;
}

SamplingOptions read_sampling(const vesper_generate_options& given) {
  SamplingOptions sampling{.temperature = given_number(given.temperature),
                           .top_k = given_count(given.top_k),
                           .typical_p = given_number(given.typical_p),
                           .top_p = given_number(given.top_p),
                           .min_p = given_number(given.min_p),
                           .repetition_penalty = given_number(given.repetition_penalty),
                           .frequency_penalty = given_number(given.frequency_penalty),
                           .presence_penalty = given_number(given.presence_penalty),
                           .penalty_window = given_count(given.penalty_window),
                           .no_repeat_ngram_size = given_count(given.no_repeat_ngram_size)};
  if (given.seed > int64_t{UINT32_MAX}) {
    throw Error(
        ErrorKind::kUsage, "seed",
        "expected at most " + std::to_string(UINT32_MAX) + ", found " + std::to_string(given.seed));
  }
  if (given.seed >= 0) sampling.seed = static_cast<uint32_t>(given.seed);
  return sampling;
}

}  // namespace

GenerateCall::GenerateCall(const vesper_generate_options* options) {
  const vesper_generate_options given =
      read_options("options", options, default_generate_options());
  if (given.max_tokens != 0) text.max_tokens = given.max_tokens;
  text.sampling = read_sampling(given);
  if (given.n_stops > 0) required("stops", given.stops);
  for (size_t i = 0; i < given.n_stops; ++i) {
    text.stops.emplace_back(required("stops", given.stops[i]));
  }
  text.top_logprobs = given.top_logprobs;
  text.thinking = given.separate_thinking != 0 ? Thinking::kSeparate : Thinking::kInText;
  text.end_loops = given.allow_loops == 0;
  text.context_shift = given.context_shift != 0;
  text.reuse_prompt = given.no_reuse == 0;
  text.grammar = read_grammar(given.grammar_notation, given.grammar, given.grammar_after);
  if (given.n_logit_bias > 0) required("logit_bias", given.logit_bias);
  for (const auto& [token, bias] : std::span(given.logit_bias, given.n_logit_bias)) {
    text.logit_bias.emplace_back(token, bias);
  }
  text.ignore_end = given.ignore_end != 0;
  thinks = given.no_thinking == 0;
  is_cancelled = capi::is_cancelled(given.cancellation);
  on_text_ = given.on_text;
  on_thinking_ = given.on_thinking;
  user_ = given.user;
}

TextEvents GenerateCall::events() const {
  TextEvents events;
  const auto is_refused = std::make_shared<bool>(false);
  const auto event = [&](int (*callback)(const char*, void*)) {
    std::function<void(std::string_view)> passed;
    if (!callback) return passed;
    passed = [callback, is_refused, user = user_](std::string_view part) {
      if (callback(std::string(part).c_str(), user) != 0) *is_refused = true;
    };
    return passed;
  };
  events.on_text = event(on_text_);
  events.on_thinking = event(on_thinking_);
  if (on_text_ || on_thinking_ || is_cancelled) {
    events.is_cancelled = [is_refused, is_cancelled = is_cancelled] {
      return *is_refused || (is_cancelled && is_cancelled());
    };
  }
  return events;
}

}  // namespace vesper::capi

namespace capi = vesper::capi;

extern "C" {

void vesper_generate_options_init(vesper_generate_options* options, size_t size) {
  capi::init_options(__func__, options, size, capi::default_generate_options);
}

vesper_status vesper_generate_options_init_for(const vesper_language_model* model,
                                               vesper_generate_options* options, size_t size) {
  return capi::guarded(__func__, model, [&] {
    const auto found = capi::find_object("model", model);
    const vesper::Sampling& sampling = found->session.model().sampling_defaults().sampling;
    vesper_generate_options defaults = capi::default_generate_options();
    defaults.temperature = double{sampling.temperature};
    defaults.top_k = sampling.top_k;
    defaults.top_p = double{sampling.top_p};
    defaults.min_p = double{sampling.min_p};
    defaults.typical_p = double{sampling.typical_p};
    defaults.repetition_penalty = double{sampling.repetition_penalty};
    defaults.frequency_penalty = double{sampling.frequency_penalty};
    defaults.presence_penalty = double{sampling.presence_penalty};
    defaults.penalty_window = sampling.penalty_window;
    defaults.no_repeat_ngram_size = sampling.no_repeat_ngram_size;
    capi::fill_options(options, size, defaults);
  });
}

}  // extern "C"
