#include "session/speech_options.h"

#include <cmath>

#include "error/error.h"

namespace vesper {
namespace {

void expect(bool condition, const std::string& setting, const std::string& expected) {
  if (!condition) throw Error(ErrorKind::kUsage, setting, "expected " + expected);
}

void expect(bool condition, const std::string& setting, const std::string& expected, double found) {
  std::string number = std::to_string(found);
  number.erase(number.find_last_not_of('0') + 1);
  if (number.ends_with('.')) number.pop_back();
  expect(condition, setting, expected + ", found " + number);
}

void check_search(const DecodingSettings& settings) {
  constexpr uint32_t kMostDraws = 64;
  expect(!settings.temperatures.empty(), "temperature", "at least one");
  for (const double temperature : settings.temperatures) {
    expect(temperature >= 0 && temperature <= 10, "temperature", "0 to 10", temperature);
  }
  expect(settings.beam_size >= 1 && settings.beam_size <= kMostBeamSize, "beam size",
         "1 to " + std::to_string(kMostBeamSize), settings.beam_size);
  expect(settings.best_of >= 1 && settings.best_of <= kMostDraws, "best of",
         "1 to " + std::to_string(kMostDraws), settings.best_of);
  expect(settings.patience > 0 && settings.patience <= kMostPatience, "patience",
         "more than 0, and at most " + std::to_string(kMostPatience), settings.patience);
  expect(most_finished(settings) > 0, "patience",
         "more: with " + std::to_string(settings.beam_size) +
             " beams no text would ever end the search");
  expect(settings.repetition_penalty > 0 && std::isfinite(settings.repetition_penalty),
         "repetition penalty", "more than 0", settings.repetition_penalty);
  expect(settings.top_p >= 0 && settings.top_p <= 1, "top p", "0 to 1", settings.top_p);
  expect(settings.min_p >= 0 && settings.min_p <= 1, "min p", "0 to 1", settings.min_p);
}

void check_times(const DecodingSettings& settings) {
  double last = 0;
  for (const double clip : settings.clip_timestamps) {
    expect(clip >= last && std::isfinite(clip), "clip timestamps", "rising seconds", clip);
    last = clip;
  }
  expect(settings.max_initial_timestamp_s >= 0, "max initial timestamp", "0 or more seconds",
         settings.max_initial_timestamp_s);
  expect(!settings.max_new_tokens || *settings.max_new_tokens > 0, "max new tokens", "1 or more",
         0);
  expect(!settings.max_segment_length || settings.word_timestamps, "max segment length",
         "word timestamps");
  expect(!settings.hallucination_silence_threshold_s || settings.word_timestamps,
         "hallucination silence threshold", "word timestamps");
  expect(!settings.split_on_word || settings.max_segment_length, "split on word",
         "a max segment length");
}

// What needs a recording as a whole, and so not a live stream.
void check_live(const SpeechOptions& options) {
  const auto refuse = [](bool is_set, const std::string& setting) {
    expect(!is_set, setting, "without live captions");
  };
  refuse(options.vad.has_value(), "vad");
  refuse(options.channels == Channels::kSplit, "channels split");
  refuse(options.channels == Channels::kDiarize, "diarize");
  refuse(!options.decoding.clip_timestamps.empty(), "clip timestamps");
  refuse(options.decoding.max_segment_length.has_value(), "max segment length");
  refuse(options.decoding.word_timestamps, "word timestamps");
}

}  // namespace

void check_options(const SpeechOptions& options, bool is_live) {
  const DecodingSettings& decoding = options.decoding;
  expect(!decoding.multilingual || decoding.language == "auto", "multilingual",
         "no language, found " + decoding.language);
  expect(decoding.language_detection_segments > 0, "language detection segments", "1 or more", 0);
  check_search(decoding);
  check_times(decoding);
  if (is_live) check_live(options);
}

}  // namespace vesper
