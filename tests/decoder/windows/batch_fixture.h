// A tiny Whisper of random weights and a made recording of 9 s, for tests of transcribe_batch.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "decoder/windows/batch_transcriber.h"
#include "llm/devices/open_device.h"
#include "llm/inspect/observed_device.h"
#include "tests/decoder/greedy_settings.h"
#include "tests/llm/weights/tiny_whisper_files.h"
#include "tests/temporary_folder.h"

namespace vesper::batch_transcriber_test {

class BatchTranscriber : public testing::Test {
 protected:
  BatchTranscriber() {
    test::TinyWhisperOptions options;
    options.n_audio_ctx = 50;  // a window is 1 s
    options.n_text_ctx = 160;
    test::write_files(test::TinyWhisper(options).ctranslate2(DType::kF32), folder_.path());
    std::mt19937 random(3);
    std::normal_distribution<float> noise(0.0f, 0.2f);
    std::vector<float> samples(16000 * 9);
    for (size_t i = 0; i < samples.size(); ++i) {
      samples[i] = noise(random) * static_cast<float>(1 + i / 16000 % 3);
    }
    mel_.push(samples.data(), samples.size());
    mel_.finish();
    settings_.language = "en";
    settings_.max_new_tokens = 25;
    settings_.no_speech_threshold.reset();
    settings_.logprob_threshold.reset();
    settings_.compression_ratio_threshold.reset();
  }

  // Windows of 8 s, each decoded once, at temperature 1.
  void draw_in_longer_windows() {
    test::TinyWhisperOptions options;
    options.n_audio_ctx = 400;
    options.n_text_ctx = 160;
    test::write_files(test::TinyWhisper(options).ctranslate2(DType::kF32), folder_.path());
    settings_.temperatures = {1};
    settings_.best_of = 1;
  }
  WhisperModel load(uint32_t n_places, Compute compute = Compute::kF32, uint32_t n_encoded = 1,
                    const KvTypes& kv_types = {}) const {
    return {folder_.path(), open_device("cpu", {.n_threads = 2}), compute,
            n_places,       most_candidates(settings_),           n_encoded,
            kv_types};
  }
  // Settings for a model with windows of 8 s: suppresses all tokens except some timestamps and the
  // end, so that little text loops.
  static std::vector<int32_t> all_but_little(const WhisperTokens& tokens, int32_t step) {
    std::vector<int32_t> all;
    for (int32_t id = 12; id < tokens.timestamp_begin + 1501; ++id) {
      const int32_t time = id - tokens.timestamp_begin;
      const bool is_time = time >= 0 && time < 400 && time % step == 0;
      if (id != tokens.eot && !is_time) all.push_back(id);
    }
    return all;
  }
  // Text segments that begin within the speech segment.
  static std::vector<Segment> within(const Transcript& transcript, const SpeechSegment& span) {
    std::vector<Segment> segments;
    for (const Segment& segment : transcript.segments) {
      const auto seek = static_cast<uint64_t>(segment.seek);
      if (seek >= span.begin && seek < span.end) segments.push_back(segment);
    }
    return segments;
  }
  // Equal to the last bit of their probabilities.
  static void expect_equal(const std::vector<Segment>& found, const std::vector<Segment>& wanted) {
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].tokens, wanted[i].tokens);
      EXPECT_EQ(found[i].seek, wanted[i].seek);
      EXPECT_EQ(found[i].start_s, wanted[i].start_s);
      EXPECT_EQ(found[i].avg_logprob, wanted[i].avg_logprob);
      EXPECT_EQ(found[i].temperature, wanted[i].temperature);
      ASSERT_EQ(found[i].words.size(), wanted[i].words.size());
      for (size_t w = 0; w < wanted[i].words.size(); ++w) {
        EXPECT_EQ(found[i].words[w].text, wanted[i].words[w].text);
        EXPECT_EQ(found[i].words[w].start_s, wanted[i].words[w].start_s);
        EXPECT_EQ(found[i].words[w].end_s, wanted[i].words[w].end_s);
        EXPECT_EQ(found[i].words[w].probability, wanted[i].words[w].probability);
      }
    }
  }
  static uint64_t encoder_runs(ObservedDevice& device) {
    uint64_t n = 0;
    for (ProgramId id = 0; id < device.programs().size(); ++id) {
      const bool is_encoder = device.programs()[id].labels().front() == "encoder.conv1";
      if (is_encoder) n += device.replay_times(id).n_runs;
    }
    return n;
  }
  Transcript transcribe(WhisperModel& model, const std::vector<SpeechSegment>& segments) const {
    return transcribe_segments(model, mel_, segments, settings_, {}, {});
  }
  // These segments of the made recording.
  BatchRecording recording(const std::vector<SpeechSegment>& segments,
                           std::function<void(Transcript)> on_end = {}) const {
    return {.mel = {std::shared_ptr<const void>(), &mel_},
            .parts = segments,
            .speech = segments,
            .on_segment = {},
            .on_progress = {},
            .on_end = std::move(on_end)};
  }
  // Gives each recording once.
  static NextRecording each_of(std::vector<BatchRecording> recordings) {
    return [recordings = std::move(recordings), n = size_t{0}]() mutable {
      return n < recordings.size() ? std::optional(recordings[n++]) : std::nullopt;
    };
  }
  // Each speech segment alone has the same result as together with the others.
  void expect_independent(Compute compute, const KvTypes& kv_types = {}) const {
    WhisperModel model = load(3, compute, 1, kv_types);
    const Transcript together = transcribe(model, speech_segments_);
    for (const SpeechSegment& span : speech_segments_) {
      SCOPED_TRACE("segment from frame " + std::to_string(span.begin));
      const Transcript alone = transcribe(model, {span});
      ASSERT_FALSE(alone.segments.empty());
      expect_equal(within(together, span), alone.segments);
    }
  }

  TemporaryFolder folder_;
  MelSpectrogram mel_{80};
  DecodingSettings settings_ = greedy_settings();
  // More segments than slots, of one and of several windows.
  const std::vector<SpeechSegment> speech_segments_ = {
      {0, 250}, {250, 320}, {330, 500}, {500, 780}, {780, 900}};
};

}  // namespace vesper::batch_transcriber_test
