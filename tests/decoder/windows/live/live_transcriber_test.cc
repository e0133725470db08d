// A stream through a tiny Whisper with random weights and windows of 5 s. Its text is meaningless
// but must be consistent.
#include "decoder/windows/live/live_transcriber.h"

#include <gtest/gtest.h>

#include <random>

#include "audio/mel/mel.h"
#include "decoder/windows/recording_transcriber.h"
#include "llm/devices/open_device.h"
#include "tests/decoder/greedy_settings.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::live_transcriber_test {
namespace {

constexpr int kSamplesPerSecond = 16000;

class LiveTranscription : public testing::Test {
 protected:
  LiveTranscription()
      : model_(folder_.path(), open_device("cpu", {.n_threads = 1}), Compute::kF32) {
    std::mt19937 random(3);
    std::normal_distribution<float> noise(0.0f, 0.1f);
    sound_.resize(static_cast<size_t>(13.3 * kSamplesPerSecond));
    for (float& sample : sound_) sample = noise(random);
    // No window is silent and none is decoded again.
    settings_.no_speech_threshold.reset();
    settings_.logprob_threshold.reset();
    settings_.compression_ratio_threshold.reset();
    settings_.policy = WindowPolicy::reference();
    settings_.max_new_tokens = 24;
  }

  struct Streamed {
    Transcript transcript;
    std::string final;     // all words, in order
    size_t n_early = 0;    // words that were final before their window was full
    std::string segments;  // texts from on_segment
    bool is_partial = false;
  };

  // Pushes the audio in steps of `step_s`. If `live`, also decodes incomplete windows.
  Streamed stream(double step_s, bool live) {
    Streamed streamed;
    bool is_early = false;
    LiveEvents events;
    events.on_final = [&](std::span<const CaptionWord> words, double) {
      EXPECT_FALSE(words.empty());
      for (const CaptionWord& word : words) streamed.final += word.text;
      if (is_early) streamed.n_early += words.size();
    };
    events.on_partial = [&](std::span<const CaptionWord> words, double) {
      streamed.is_partial = !words.empty();
    };
    events.on_segment = [&](const Segment& segment) { streamed.segments += segment.text; };
    LiveTranscriber live_transcriber(model_, settings_, events, find_speech_);
    const auto step = static_cast<size_t>(step_s * kSamplesPerSecond);
    for (size_t at = 0; at < sound_.size(); at += step) {
      live_transcriber.push(sound_.data() + at, std::min(step, sound_.size() - at));
      live_transcriber.transcribe_whole_windows();
      is_early = true;
      if (live) live_transcriber.transcribe_beginning();
      is_early = false;
    }
    EXPECT_DOUBLE_EQ(live_transcriber.received_s(), 13.3);
    streamed.transcript = live_transcriber.finish();
    return streamed;
  }

  const test::ModelFolder folder_{
      test::TinyWhisper({.n_audio_ctx = 250, .n_text_ctx = 240}).ctranslate2(DType::kF32)};
  WhisperModel model_;
  std::vector<float> sound_;
  DecodingSettings settings_ = greedy_settings();
  FindSpeech find_speech_;
};

TEST_F(LiveTranscription, OfAvailableAudioEqualsTheRecording) {
  MelSpectrogram mel(80, model_.mel_filters());
  mel.push(sound_.data(), sound_.size());
  mel.finish();
  const Transcript whole = transcribe_recording(model_, mel, settings_, {}, {});
  const Streamed streamed = stream(6, false);
  ASSERT_FALSE(whole.segments.empty());
  ASSERT_EQ(streamed.transcript.segments.size(), whole.segments.size());
  std::string text;
  for (size_t i = 0; i < whole.segments.size(); ++i) {
    EXPECT_EQ(streamed.transcript.segments[i].tokens, whole.segments[i].tokens) << i;
    EXPECT_EQ(streamed.transcript.segments[i].start_s, whole.segments[i].start_s) << i;
    EXPECT_EQ(streamed.transcript.segments[i].end_s, whole.segments[i].end_s) << i;
    text += whole.segments[i].text;
  }
  EXPECT_EQ(streamed.final, text);
  EXPECT_EQ(streamed.n_early, 0u);
  EXPECT_EQ(streamed.transcript.language, whole.language);
  EXPECT_DOUBLE_EQ(streamed.transcript.duration_s, 13.3);
}

// Steps of at most one window, so that a window is full before later audio arrives.
TEST_F(LiveTranscription, WindowsDoNotDependOnWhenAudioArrives) {
  settings_.language = "en";
  const Streamed at_once = stream(14, false);
  ASSERT_GT(at_once.transcript.segments.size(), 1u);
  for (const double step_s : {5.0, 1.0, 0.01, 0.37}) {
    const Streamed in_steps = stream(step_s, false);
    ASSERT_EQ(in_steps.transcript.segments.size(), at_once.transcript.segments.size()) << step_s;
    for (size_t i = 0; i < at_once.transcript.segments.size(); ++i) {
      const Segment &a = in_steps.transcript.segments[i], &b = at_once.transcript.segments[i];
      EXPECT_EQ(a.tokens, b.tokens) << step_s;
      EXPECT_EQ(a.avg_logprob, b.avg_logprob) << step_s << " s: the same frames";
    }
  }
}

TEST_F(LiveTranscription, NeverChangesFinalWords) {
  settings_.language = "en";
  const Streamed streamed = stream(0.4, true);
  std::string text;
  for (const Segment& segment : streamed.transcript.segments) text += segment.text;
  EXPECT_FALSE(text.empty());
  EXPECT_GT(streamed.n_early, 0u) << "words come before the window is full";
  EXPECT_EQ(streamed.final, text);
  EXPECT_EQ(streamed.segments, text);
  EXPECT_FALSE(streamed.is_partial) << "nothing is left open at the end";
}

TEST_F(LiveTranscription, HasTheWindowsOfTheRecording) {
  settings_.language = "en";
  const Streamed early = stream(0.4, true), late = stream(6, false);
  ASSERT_GT(early.n_early, 0u);
  const auto windows = [](const Transcript& transcript) {
    std::vector<int64_t> begins;
    for (const Segment& segment : transcript.segments) {
      if (begins.empty() || begins.back() != segment.seek) begins.push_back(segment.seek);
    }
    return begins;
  };
  EXPECT_GT(windows(late.transcript).size(), 2u);
  EXPECT_EQ(windows(early.transcript), windows(late.transcript));
  EXPECT_NE(early.final, late.final) << "hasty words differ, or there is nothing to test";
}

TEST_F(LiveTranscription, UsesTheGivenLanguage) {
  settings_.language = "german";
  EXPECT_EQ(stream(6, true).transcript.language, "de");
  settings_.language = "klingon";
  EXPECT_ANY_THROW(stream(6, true));
}

// The rules of recordings, where the same audio triggers them.
TEST_F(LiveTranscription, HasTheRulesOfARecording) {
  settings_.policy = {};
  settings_.language = "en";
  const auto expect_the_same = [&] {
    MelSpectrogram mel(80, model_.mel_filters());
    mel.push(sound_.data(), sound_.size());
    mel.finish();
    const Transcript whole = transcribe_recording(model_, mel, settings_, {}, {});
    const Transcript streamed = stream(14, false).transcript;
    EXPECT_EQ(streamed.language, whole.language);
    EXPECT_EQ(streamed.segments.size(), whole.segments.size());
    for (size_t i = 0; i < std::min(streamed.segments.size(), whole.segments.size()); ++i) {
      EXPECT_EQ(streamed.segments[i].seek, whole.segments[i].seek);
      EXPECT_EQ(streamed.segments[i].tokens, whole.segments[i].tokens);
    }
    EXPECT_EQ(streamed.dropped.size(), whole.dropped.size());
    for (size_t i = 0; i < std::min(streamed.dropped.size(), whole.dropped.size()); ++i) {
      EXPECT_EQ(streamed.dropped[i].start_s, whole.dropped[i].start_s);
      EXPECT_EQ(streamed.dropped[i].reason, whole.dropped[i].reason);
      EXPECT_EQ(streamed.dropped[i].text, whole.dropped[i].text);
    }
    return whole;
  };
  expect_the_same();
  // Text in windows whose speech is in doubt is dropped, and noted.
  settings_.no_speech_threshold = 1e-9;
  settings_.logprob_threshold = -10;
  EXPECT_FALSE(expect_the_same().dropped.empty());
  // Uniform silence is not decoded, and has no language.
  settings_.no_speech_threshold.reset();
  settings_.logprob_threshold.reset();
  settings_.language = "auto";
  std::ranges::fill(sound_, 0.0f);
  const Transcript silence = expect_the_same();
  EXPECT_TRUE(silence.segments.empty());
  EXPECT_TRUE(silence.dropped.empty());
  EXPECT_EQ(silence.language, "");
}

TEST_F(LiveTranscription, AmplifiesFaintSoundAsARecordingDoes) {
  settings_.language = "en";
  for (float& sample : sound_) sample *= 1e-3f;
  MelSpectrogram mel(80, model_.mel_filters());
  mel.push(sound_.data(), sound_.size());
  mel.finish();
  std::vector<std::vector<int32_t>> tokens;
  for (const bool amplifies : {true, false}) {
    settings_.policy.amplify_faint_recordings = amplifies;
    const auto first_of = [](const Transcript& transcript) {
      return transcript.segments.at(0).tokens;
    };
    tokens.push_back(first_of(transcribe_recording(model_, mel, settings_, {}, {})));
    EXPECT_EQ(first_of(stream(14, false).transcript), tokens.back()) << amplifies;
  }
  EXPECT_NE(tokens[0], tokens[1]);
}

TEST_F(LiveTranscription, ClampsAFaintWindowByTheMaximumBeforeIt) {
  settings_.language = "en";
  for (size_t i = 5 * kSamplesPerSecond; i < sound_.size(); ++i) sound_[i] *= 1e-3f;
  MelSpectrogram mel(80, model_.mel_filters());
  mel.push(sound_.data(), sound_.size());
  mel.finish();
  const Transcript whole = transcribe_recording(model_, mel, settings_, {}, {});
  const Transcript streamed = stream(14, false).transcript;
  ASSERT_EQ(streamed.segments.size(), whole.segments.size());
  for (size_t i = 0; i < whole.segments.size(); ++i) {
    EXPECT_EQ(streamed.segments[i].tokens, whole.segments[i].tokens) << i;
    EXPECT_NEAR(streamed.segments[i].avg_logprob, whole.segments[i].avg_logprob, 1e-4) << i;
  }
}

TEST_F(LiveTranscription, AsksTheVadModelWhereSpeechIsInDoubtAsARecordingDoes) {
  settings_.policy = {};
  settings_.language = "en";
  settings_.no_speech_threshold = 1e-9;
  settings_.logprob_threshold = -100;
  MelSpectrogram mel(80, model_.mel_filters());
  mel.push(sound_.data(), sound_.size());
  mel.finish();
  for (const bool has_speech : {true, false}) {
    find_speech_ = [=](std::span<const float> samples) {
      std::vector<SpeechSegment> speech;
      if (has_speech) speech.push_back({10, samples.size() / 160});
      return speech;
    };
    std::vector<SpeechSegment> speech;
    if (has_speech) speech.push_back({10, mel.content_frames()});
    const Transcript whole = transcribe_recording(model_, mel, settings_, {}, {}, speech);
    const Transcript streamed = stream(14, false).transcript;
    EXPECT_NE(whole.segments.empty(), has_speech);
    EXPECT_EQ(whole.dropped.empty(), has_speech);
    EXPECT_EQ(streamed.segments.size(), whole.segments.size());
    EXPECT_EQ(streamed.dropped.size(), whole.dropped.size());
    EXPECT_NE(stream(0.4, true).final.empty(), has_speech);
  }
}

// A copy of a cursor is a complete bookmark.
TEST_F(LiveTranscription, ContinuesFromACopyOfACursor) {
  settings_.language = "en";
  MelSpectrogram mel(80, model_.mel_filters());
  mel.push(sound_.data(), sound_.size());
  mel.finish();
  const WindowDecoder decoder(model_, settings_);
  RecordingWindows recording(decoder, mel);
  WindowCursor cursor = decoder.cursor(recording.state, 0, mel.content_frames());
  const auto step = [&] {
    EXPECT_TRUE(recording.encode_next(cursor));
    return decoder.advance(recording.state, cursor, recording.decode(cursor), 0);
  };
  step();
  const WindowCursor bookmark = cursor;
  EXPECT_GT(bookmark.seek, 0u);
  const std::vector<Segment> first = step();
  const WindowCursor behind = cursor;
  EXPECT_NE(behind, bookmark);
  cursor = bookmark;
  const std::vector<Segment> again = step();
  EXPECT_EQ(cursor, behind);
  ASSERT_EQ(again.size(), first.size());
  ASSERT_FALSE(first.empty());
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(again[i].tokens, first[i].tokens);
    EXPECT_EQ(again[i].start_s, first[i].start_s);
  }
}

}  // namespace
}  // namespace vesper::live_transcriber_test
