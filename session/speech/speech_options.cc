#include "session/speech/speech_options.h"

#include <cmath>

namespace vesper {
namespace {

void check_search(const DecodingSettings& settings) {
  check_setting(!settings.temperatures.empty(), "temperature", "at least one");
  for (const double temperature : settings.temperatures) {
    check_bounds("temperature", bounds::kTemperature, temperature);
  }
  check_bounds("beam size", bounds::kBeamSize, settings.beam_size);
  check_bounds("best of", bounds::kBestOf, settings.best_of);
  check_bounds("patience", bounds::kPatience, settings.patience);
  check_setting(settings.patience == 1 || settings.beam_size > 1, "patience",
                "a beam size above 1");
  check_setting(most_finished(settings) > 0, "patience",
                "more: with " + std::to_string(settings.beam_size) +
                    " beams no text would ever end the search");
  if (settings.length_penalty) {
    check_bounds("length penalty", bounds::kLengthPenalty, *settings.length_penalty);
  }
  check_bounds("repetition penalty", bounds::kRepetitionPenalty, settings.repetition_penalty);
  check_bounds("no repeat ngram size", bounds::kNoRepeatNgramSize, settings.no_repeat_ngram_size);
  check_bounds("top k", bounds::kTopK, settings.top_k);
  check_bounds("top p", bounds::kProbability, settings.top_p);
  check_bounds("min p", bounds::kProbability, settings.min_p);
}

void check_times(const DecodingSettings& settings) {
  double last = 0;
  for (const double clip : settings.clip_timestamps) {
    check_setting(clip >= last && std::isfinite(clip), "clip timestamps", "rising seconds");
    last = clip;
  }
  check_bounds("max initial timestamp", bounds::kMaxInitialTimestamp,
               settings.max_initial_timestamp_s);
  if (settings.max_new_tokens) {
    check_bounds("max new tokens", bounds::kMaxTokens, *settings.max_new_tokens);
  }
  if (settings.max_segment_length) {
    check_bounds("max segment length", bounds::kMaxSegmentLength, *settings.max_segment_length);
    check_setting(settings.word_timestamps, "max segment length", "word timestamps");
  }
  if (settings.hallucination_silence_threshold_s) {
    check_bounds("hallucination silence threshold", bounds::kHallucinationSilence,
                 *settings.hallucination_silence_threshold_s);
    check_setting(settings.word_timestamps, "hallucination silence threshold", "word timestamps");
  }
  check_setting(!settings.split_on_word || settings.max_segment_length, "split on word",
                "a max segment length");
}

void check_vad(const SpeechSettings& settings) {
  check_bounds("vad threshold", bounds::kVadThreshold, settings.threshold);
  if (settings.neg_threshold) {
    check_bounds("vad neg threshold", bounds::kProbability, *settings.neg_threshold);
  }
  check_bounds("vad min speech ms", bounds::kVadDuration, settings.min_speech_duration_ms);
  check_bounds("vad min silence ms", bounds::kVadDuration, settings.min_silence_duration_ms);
  check_bounds("vad pad ms", bounds::kVadDuration, settings.speech_pad_ms);
  check_bounds("vad max speech s", bounds::kVadMaxSpeech, settings.max_speech_duration_s);
}

// Settings that need the whole recording.
void check_live(const SpeechOptions& options) {
  const auto refuse = [](bool is_set, const std::string& setting) {
    check_setting(!is_set, setting, "not to be set in live captions");
  };
  refuse(options.vad.has_value(), "vad");
  refuse(options.channels == Channels::kSplit, "channels");
  refuse(options.channels == Channels::kDiarize, "diarize");
  refuse(!options.decoding.clip_timestamps.empty(), "clip timestamps");
  refuse(options.decoding.max_segment_length.has_value(), "max segment length");
  refuse(options.decoding.word_timestamps, "word timestamps");
}

void check_detection(const SpeechOptions& options) {
  check_setting(options.decoding.language == "auto", "language",
                "not to be set where it is to be detected");
  check_setting(options.channels == Channels::kMix,
                options.channels == Channels::kSplit ? "channels" : "diarize",
                "not to be set where the language is to be detected");
}

}  // namespace

void check_options(const SpeechSessionOptions& options) {
  check_weight_options(options.weights);
  if (options.threads != 0) check_bounds("threads", bounds::kThreads, options.threads);
  check_bounds("batch size", bounds::kBatchSize, options.batch_size);
  check_bounds("max candidates", bounds::kBestOf, options.max_candidates);
}

void check_options(const SpeechOptions& options, SpeechTask task) {
  const DecodingSettings& decoding = options.decoding;
  check_setting(!decoding.multilingual || decoding.language == "auto", "multilingual",
                "no language, found " + decoding.language);
  check_bounds("language detection segments", bounds::kLanguageDetectionSegments,
               decoding.language_detection_segments);
  check_bounds("language detection threshold", bounds::kProbability,
               decoding.language_detection_threshold);
  check_search(decoding);
  if (decoding.grammar) {
    check_setting(!decoding.grammar->after, "grammar after", "an answer of a language model");
    compile_grammar(*decoding.grammar);
  }
  check_times(decoding);
  if (options.vad) check_vad(*options.vad);
  if (task == SpeechTask::kLiveCaptions) check_live(options);
  if (task == SpeechTask::kDetectLanguage) check_detection(options);
}

void check_format(const PcmFormat& format) {
  check_bounds("sample rate hz",
               Bounds<uint32_t>{AudioReader::kMinSampleRateHz, AudioReader::kMaxSampleRateHz},
               format.sample_rate_hz);
  check_bounds("channels", Bounds<uint32_t>{1, AudioReader::kMaxChannels}, format.channels);
}

void check_samples(const AudioInput& input) {
  if (input.samples) check_format(input.samples->format);
}

}  // namespace vesper
