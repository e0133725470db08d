#include "capi/speech/transcribe_options.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "capi/cancellation.h"
#include "capi/grammar.h"
#include "capi/options.h"
#include "error/bounds.h"
#include "error/error.h"

namespace vesper::capi {
namespace {

// More elements are nonsense, such as uninitialised memory.
constexpr size_t kMostElements = 1 << 20;

// Sets the session's field from the caller's.
struct FromCaller {
  void operator()(uint32_t given, uint32_t& field) const { field = given; }
  void operator()(double given, double& field) const { field = given; }
  void operator()(int given, bool& field) const { field = given != 0; }
  void operator()(const char* given, std::string& field) const {
    if (given) field = given;
  }
  void operator()(double given, std::optional<double>& field) const {
    field = std::isnan(given) ? std::nullopt : std::optional(given);
  }
  void operator()(uint32_t given, std::optional<uint32_t>& field) const {
    field = given == 0 ? std::nullopt : std::optional(given);
  }
  template <class T>
  void list(const char* name, const T* given, size_t n, std::vector<T>& field) const {
    check_setting(n <= kMostElements, name, "at most 1048576 elements, found " + std::to_string(n));
    check_setting(given || n == 0, name, std::to_string(n) + " elements, found NULL");
    field.assign(given, given + n);
  }
};

// The opposite, for defaults. The caller's pointers are to the session's fields.
struct ToCaller {
  void operator()(uint32_t& given, uint32_t field) const { given = field; }
  void operator()(double& given, double field) const { given = field; }
  void operator()(int& given, bool field) const { given = field ? 1 : 0; }
  void operator()(const char*& given, const std::string& field) const {
    given = field.empty() ? nullptr : field.c_str();
  }
  void operator()(double& given, const std::optional<double>& field) const {
    given = field.value_or(std::numeric_limits<double>::quiet_NaN());
  }
  void operator()(uint32_t& given, const std::optional<uint32_t>& field) const {
    given = field.value_or(0);
  }
  template <class T>
  void list(const char*, const T*& given, size_t& n, const std::vector<T>& field) const {
    given = field.empty() ? nullptr : field.data();
    n = field.size();
  }
};

// The fields that both sides have.
template <class Copy, class Given, class Decoding, class Vad>
void copy_fields(const Copy& copy, Given& given, Decoding& decoding, Vad& vad) {
  copy(given.language, decoding.language);
  copy(given.language_detection_segments, decoding.language_detection_segments);
  copy(given.language_detection_threshold, decoding.language_detection_threshold);
  copy(given.multilingual, decoding.multilingual);

  copy.list("temperature", given.temperatures, given.n_temperatures, decoding.temperatures);
  copy(given.beam_size, decoding.beam_size);
  copy(given.patience, decoding.patience);
  copy(given.best_of, decoding.best_of);
  copy(given.length_penalty, decoding.length_penalty);
  copy(given.repetition_penalty, decoding.repetition_penalty);
  copy(given.no_repeat_ngram_size, decoding.no_repeat_ngram_size);
  copy(given.top_k, decoding.top_k);
  copy(given.top_p, decoding.top_p);
  copy(given.min_p, decoding.min_p);
  copy(given.seed, decoding.seed);

  copy(given.no_speech_threshold, decoding.no_speech_threshold);
  copy(given.logprob_threshold, decoding.logprob_threshold);
  copy(given.compression_ratio_threshold, decoding.compression_ratio_threshold);

  copy(given.condition_on_previous_text, decoding.condition_on_previous_text);
  copy(given.initial_prompt, decoding.initial_prompt);
  copy(given.carry_initial_prompt, decoding.carry_initial_prompt);
  copy(given.hotwords, decoding.hotwords);
  copy(given.prefix, decoding.prefix);

  copy(given.suppress_model_tokens, decoding.suppress_model_tokens);
  copy.list("suppress tokens", given.suppress_tokens, given.n_suppress_tokens,
            decoding.suppress_tokens);
  copy(given.suppress_regex, decoding.suppress_regex);
  copy(given.suppress_numerals, decoding.suppress_numerals);

  copy(given.max_initial_timestamp_s, decoding.max_initial_timestamp_s);
  copy(given.without_timestamps, decoding.without_timestamps);
  copy(given.max_new_tokens, decoding.max_new_tokens);
  copy(given.word_timestamps, decoding.word_timestamps);
  copy(given.prepend_punctuations, decoding.punctuation.prepended);
  copy(given.append_punctuations, decoding.punctuation.appended);
  copy(given.hallucination_silence_threshold_s, decoding.hallucination_silence_threshold_s);
  copy(given.max_segment_length, decoding.max_segment_length);
  copy(given.split_on_word, decoding.split_on_word);
  copy.list("clip timestamps", given.clip_timestamps, given.n_clip_timestamps,
            decoding.clip_timestamps);

  copy(given.vad_threshold, vad.threshold);
  copy(given.vad_neg_threshold, vad.neg_threshold);
  copy(given.vad_min_speech_ms, vad.min_speech_duration_ms);
  copy(given.vad_min_silence_ms, vad.min_silence_duration_ms);
  copy(given.vad_pad_ms, vad.speech_pad_ms);
  copy(given.vad_max_speech_s, vad.max_speech_duration_s);
}

vesper_transcribe_options default_options() {
  struct Defaults {
    DecodingSettings decoding;
    SpeechSettings vad;
  };
  // Never destroyed, because callers keep pointers to it.
  static const Defaults& defaults = *new Defaults;
  vesper_transcribe_options options{};
  options.size = sizeof options;
  copy_fields(ToCaller(), options, defaults.decoding, defaults.vad);
  const RawPcm raw;
  options.raw_sample_rate_hz = raw.sample_rate_hz;
  options.raw_channels = raw.channels;
  return options;
}

WindowPolicy window_policy(const vesper_transcribe_options& given) {
  WindowPolicy policy = given.reference_rules != 0 ? WindowPolicy::reference() : WindowPolicy();
  std::vector<const char*> rules;
  FromCaller().list("disabled rules", given.disabled_rules, given.n_disabled_rules, rules);
  for (const char* rule : rules) {
    check_setting(rule != nullptr, "disabled rules", "names, found NULL");
    disable_rule(policy, rule);
  }
  return policy;
}

Channels channels(const vesper_transcribe_options& given) {
  switch (number_of(given.channels)) {
    case VESPER_CHANNELS_MIX:
      return Channels::kMix;
    case VESPER_CHANNELS_SPLIT:
      return Channels::kSplit;
    case VESPER_CHANNELS_DIARIZE:
      return Channels::kDiarize;
    default:
      throw Error(ErrorKind::kUsage, "channels",
                  "expected a vesper_channels, found " + std::to_string(number_of(given.channels)));
  }
}

ReaderOptions reader_options(const vesper_transcribe_options& given) {
  ReaderOptions reader;
  if (given.channel != 0) {
    check_setting(number_of(given.channels) == VESPER_CHANNELS_MIX, "channel",
                  "to be set only with VESPER_CHANNELS_MIX");
    check_bounds("channel", Bounds<uint32_t>{1, AudioReader::kMaxChannels}, given.channel);
    reader.channel = static_cast<int>(given.channel) - 1;
  }
  if (given.raw_encoding) {
    const std::string encoding = given.raw_encoding;
    check_setting(encoding == "s16le" || encoding == "f32le", "raw encoding",
                  "s16le or f32le, found '" + encoding + "'");
    check_bounds("raw sample rate hz",
                 Bounds<uint32_t>{AudioReader::kMinSampleRateHz, AudioReader::kMaxSampleRateHz},
                 given.raw_sample_rate_hz);
    check_bounds("raw channels", Bounds<uint32_t>{1, AudioReader::kMaxChannels},
                 given.raw_channels);
    reader.raw = RawPcm{encoding == "s16le" ? RawPcm::Encoding::kS16Le : RawPcm::Encoding::kF32Le,
                        given.raw_sample_rate_hz, given.raw_channels};
  }
  return reader;
}

}  // namespace

SpeechCall::SpeechCall(const vesper_transcribe_options* caller) {
  const vesper_transcribe_options given = read_options("options", caller, default_options());
  copy_fields(FromCaller(), given, speech.decoding, vad);
  const int task = number_of(given.task);
  check_setting(task == VESPER_TASK_TRANSCRIBE || task == VESPER_TASK_TRANSLATE, "task",
                "a vesper_task, found " + std::to_string(task));
  speech.decoding.translate = task == VESPER_TASK_TRANSLATE;
  speech.decoding.policy = window_policy(given);
  speech.channels = channels(given);
  if (given.vad != 0) speech.vad = vad;
  speech.decoding.grammar = read_grammar(given.grammar_notation, given.grammar);
  reader = reader_options(given);
  events.is_cancelled = is_cancelled(given.cancellation);
  if (given.on_progress) {
    events.on_progress = [on_progress = given.on_progress, user = given.on_progress_user](
                             double done_s, double total_s) { on_progress(done_s, total_s, user); };
  }
  if (given.on_language) {
    events.on_language = [on_language = given.on_language, user = given.on_language_user](
                             const std::string& language, double probability) {
      on_language(language.c_str(), probability, user);
    };
  }
}

AudioInput SpeechCall::input(const char* path) const {
  return {.path = required("path", path), .reader = reader};
}

AudioInput SpeechCall::input(const vesper_pcm* pcm) const {
  required("pcm", pcm);
  AudioInput input{.reader = reader};
  input.reader.raw.reset();
  input.samples = PcmSamples{samples_argument("pcm", pcm->samples, pcm->n_frames, pcm->channels),
                             {.sample_rate_hz = pcm->sample_rate_hz, .channels = pcm->channels}};
  return input;
}

std::span<const float> samples_argument(const char* argument, const float* samples, size_t n_frames,
                                        uint32_t channels) {
  if (!samples && n_frames > 0) throw ArgumentError(argument, "expected samples, found NULL");
  constexpr size_t kMostBytes = std::numeric_limits<std::ptrdiff_t>::max();
  if (channels > 0 && n_frames > kMostBytes / sizeof(float) / channels) {
    throw ArgumentError(argument, "expected a number of frames that fits the memory, found " +
                                      std::to_string(n_frames));
  }
  return {samples, n_frames * channels};
}

}  // namespace vesper::capi

extern "C" void vesper_transcribe_options_init(vesper_transcribe_options* options, size_t size) {
  vesper::capi::init_options(__func__, options, size, vesper::capi::default_options);
}
