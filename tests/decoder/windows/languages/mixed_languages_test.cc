// Recordings of several languages: their cuts, the path of languages, and the vote of windows by a
// tiny Whisper with random weights and windows of 5 s, whose detected language is arbitrary but
// constant.
#include "decoder/windows/languages/mixed_languages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "audio/mel/mel.h"
#include "decoder/windows/recording_transcriber.h"
#include "error/error.h"
#include "llm/devices/open_device.h"
#include "tests/decoder/greedy_settings.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::mixed_languages_test {
namespace {

using testing::ElementsAre;

// Loudness of alternating sound and pauses, 10 ms each; the sound is uneven.
std::vector<float> loudness(std::initializer_list<int> frames, float pause = -6) {
  std::vector<float> values;
  bool is_sound = true;
  for (const int n : frames) {
    for (int i = 0; i < n; ++i) {
      values.push_back(is_sound ? std::sin(0.7f * static_cast<float>(i)) : pause);
    }
    is_sound = !is_sound;
  }
  return values;
}

TEST(CutAtPauses, CutsAtPauses) {
  EXPECT_THAT(cut_at_pauses(loudness({300, 60, 200, 50, 400})), ElementsAre(330, 585, 1010));
  EXPECT_THAT(cut_at_pauses(loudness({300, 30, 200})), ElementsAre(530)) << "between words";
  EXPECT_THAT(cut_at_pauses(loudness({300, 60, 200}, -1.5f)), ElementsAre(330, 560)) << "noisy";
}

TEST(CutAtPauses, KeepsNoQuietSegment) {
  EXPECT_THAT(cut_at_pauses(loudness({300, 60, 30, 80, 300})), ElementsAre(430, 770))
      << "it belongs to what is closer";
  EXPECT_THAT(cut_at_pauses(loudness({300, 80, 30, 60, 300})), ElementsAre(340, 770));
  EXPECT_THAT(cut_at_pauses(loudness({300, 60, 20})), ElementsAre(380));
  EXPECT_THAT(cut_at_pauses(loudness({20, 60, 300})), ElementsAre(380));
  EXPECT_THAT(cut_at_pauses({}), ElementsAre(0));
  EXPECT_THAT(cut_at_pauses(std::vector<float>(5, 1.0f)), ElementsAre(5));
}

TEST(CutAtPauses, CutsLongAudioAtTheQuietestPoint) {
  std::vector<float> sound = loudness({1500});
  for (int i = 0; i < 20; ++i) sound[500 + i] -= 1;
  const std::vector<size_t> ends = cut_at_pauses(sound);
  ASSERT_GE(ends.size(), 2u);
  EXPECT_NEAR(static_cast<double>(ends[0]), 510, 10);
  EXPECT_EQ(ends.back(), 1500u);
  size_t begin = 0;
  for (const size_t end : ends) {
    EXPECT_LE(end - begin, 800u);
    EXPECT_GE(end - begin, 200u);
    begin = end;
  }
}

// Of three languages, the most probable one with p.
PartLanguages heard(size_t language, float p, double seconds = 3) {
  PartLanguages part{seconds, std::vector<float>(3, (1 - p) / 2)};
  part.probabilities[language] = p;
  return part;
}

TEST(LikeliestLanguages, ChangeIfTheModelIsSure) {
  const std::vector<PartLanguages> parts{heard(0, 0.99f), heard(1, 0.99f), heard(0, 0.98f),
                                         heard(2, 0.97f)};
  EXPECT_THAT(likeliest_languages(parts, {}, 0.5), ElementsAre(0, 1, 0, 2));
  EXPECT_THAT(likeliest_languages(parts, 2, 0.5), ElementsAre(0, 1, 0, 2));
}

TEST(LikeliestLanguages, DoNotChangeIfTheModelIsUnsure) {
  const std::vector<PartLanguages> parts{heard(0, 0.99f), heard(1, 0.8f), heard(0, 0.98f)};
  EXPECT_THAT(likeliest_languages(parts, {}, 0.5), ElementsAre(0, 0, 0));
  const std::vector<PartLanguages> longer{heard(0, 0.99f), heard(1, 0.8f, 8), heard(0, 0.98f)};
  EXPECT_THAT(likeliest_languages(longer, {}, 0.5), ElementsAre(0, 1, 0)) << "more sound says more";
}

// The model may be unsure between Spanish and Italian and still exclude Russian.
TEST(LikeliestLanguages, ChangeIfThePreviousOneIsExcluded) {
  const PartLanguages wavering{5, {0.002f, 0.45f, 0.3f, 0.2f}};
  EXPECT_THAT(likeliest_languages({{wavering}}, 0, 0.5), ElementsAre(1));
  EXPECT_THAT(likeliest_languages({{wavering}}, 2, 0.5), ElementsAre(2));
  EXPECT_THAT(likeliest_languages({{wavering}}, 0, 0.8), ElementsAre(0)) << "too unsure";
  const PartLanguages open{5, {0.15f, 0.45f, 0.2f, 0.2f}};
  EXPECT_THAT(likeliest_languages({{open}}, 0, 0.5), ElementsAre(0)) << "not ruled out";
}

TEST(LikeliestLanguages, IgnoreSegmentsBelowTheThreshold) {
  const std::vector<PartLanguages> parts{
      heard(0, 0.59f, 8), heard(1, 0.59f, 8), {3, {}}, heard(0, 0.58f, 8)};
  EXPECT_THAT(likeliest_languages(parts, {}, 1), ElementsAre(0, 0, 0, 0)) << "their mean";
  EXPECT_THAT(likeliest_languages(parts, 2, 1), ElementsAre(2, 2, 2, 2)) << "what was before";
  const std::vector<PartLanguages> sure{heard(0, 0.99f), heard(1, 0.99f), {3, {}}, heard(0, 0.98f)};
  EXPECT_THAT(likeliest_languages(sure, {}, 1), ElementsAre(0, 1, testing::Le(1u), 0));
  const std::vector<PartLanguages> silence(2, {3, {}});
  EXPECT_THAT(likeliest_languages(silence, 2, 0.5), ElementsAre(2, 2));
}

TEST(MixedLanguages, EndWindowsAtALanguageChange) {
  MelSpectrogram mel(80);
  std::mt19937 random(5);
  std::normal_distribution<float> noise(0.0f, 0.3f);
  std::vector<float> sound;
  for (int second = 0; second < 12; ++second) {  // every fourth second is silent
    for (int i = 0; i < 16000; ++i) sound.push_back(second % 4 == 3 ? 0 : noise(random));
  }
  mel.push(sound.data(), sound.size());
  mel.finish();
  std::vector<std::pair<uint64_t, uint64_t>> detected;
  MixedLanguages languages(mel, 0, 1200, 0.5, [&](uint64_t begin, uint64_t end) {
    detected.emplace_back(begin, end);
    return heard(begin > 300 && begin < 700 ? 1 : 0, 0.99f).probabilities;
  });
  const auto first = languages.at(0, 500, {});
  EXPECT_EQ(first.language, 0u);
  EXPECT_FLOAT_EQ(static_cast<float>(first.probability), 0.99f);
  EXPECT_NEAR(static_cast<double>(first.end), 350, 5);
  EXPECT_EQ(detected.size(), 2u) << "not beyond what was asked for";
  const auto second = languages.at(first.end, 500, 0);
  EXPECT_EQ(second.language, 1u);
  EXPECT_NEAR(static_cast<double>(second.end), 750, 5);
  const auto third = languages.at(800, 300, 1);
  EXPECT_EQ(third.language, 0u);
  EXPECT_EQ(third.end, 1100u) << "as far as was asked for";
  EXPECT_EQ(languages.at(800, 3000, 0).end, 1200u);
  EXPECT_EQ(detected.size(), 3u) << "each once";
}

constexpr uint32_t kWindowFrames = 500;

class DetectedLanguages : public testing::Test {
 protected:
  DetectedLanguages()
      : model_(folder_.path(), open_device("cpu", {.n_threads = 1}), Compute::kF32),
        mel_(80, model_.mel_filters()) {
    // Very different windows: noise, a tone, silence, quiet noise.
    std::mt19937 random(5);
    std::normal_distribution<float> noise(0.0f, 0.3f);
    std::vector<float> sound;
    constexpr int kSamples = kWindowFrames * kMelHop;
    for (int i = 0; i < kSamples; ++i) sound.push_back(noise(random));
    for (int i = 0; i < kSamples; ++i)
      sound.push_back(0.5f * std::sin(0.3f * static_cast<float>(i)));
    for (int i = 0; i < kSamples; ++i) sound.push_back(0.0f);
    for (int i = 0; i < kSamples; ++i) sound.push_back(0.01f * noise(random));
    mel_.push(sound.data(), sound.size());
    mel_.finish();
    settings_.no_speech_threshold.reset();
    settings_.logprob_threshold.reset();
    settings_.compression_ratio_threshold.reset();
    settings_.without_timestamps = true;  // so that windows are adjacent
    settings_.max_new_tokens = 8;
  }

  // The model's result for window i alone.
  std::vector<float> probabilities(uint32_t i) {
    std::vector<float> window(size_t{model_.n_frames()} * model_.n_mels());
    MelFrames cut;
    cut.first_frame = i * kWindowFrames;
    cut.n_frames = kWindowFrames;
    mel_.window(cut, window.data());
    model_.encode(window.data());
    return model_.decoder().language_probabilities();
  }

  std::vector<std::string> languages_of_windows() {
    std::vector<std::string> languages;
    for (const Segment& segment : transcribe_recording(model_, mel_, settings_, {}, {}).segments) {
      languages.push_back(segment.language);
    }
    return languages;
  }

  const test::ModelFolder folder_{
      test::TinyWhisper({.n_audio_ctx = kWindowFrames / 2, .n_text_ctx = 64})
          .ctranslate2(DType::kF32)};
  WhisperModel model_;
  MelSpectrogram mel_;
  DecodingSettings settings_ = greedy_settings();
};

TEST_F(DetectedLanguages, AreVotedOnBySeveralWindows) {
  settings_.language_detection_threshold = 1;
  settings_.language_detection_segments = 3;
  LanguageVote vote(1);
  for (uint32_t i = 0; i < 3; ++i) vote.add(probabilities(i));
  const auto expected = ranked_languages(vote.result());
  const auto found = detect_languages(model_, mel_, settings_);
  ASSERT_EQ(found.size(), 99u);
  EXPECT_EQ(found[0].language, expected[0].language);
  EXPECT_EQ(found[0].probability, expected[0].probability);
  EXPECT_NE(found[0].probability, ranked_languages(probabilities(0))[0].probability);
  EXPECT_EQ(languages_of_windows(), std::vector(4, expected[0].language));
  // A threshold that the first window passes.
  settings_.language_detection_threshold = 0;
  EXPECT_EQ(detect_languages(model_, mel_, settings_)[0].probability,
            ranked_languages(probabilities(0))[0].probability);
  // From the first clip on.
  settings_.clip_timestamps = {5};
  EXPECT_EQ(detect_languages(model_, mel_, settings_)[0].probability,
            ranked_languages(probabilities(1))[0].probability);
}

}  // namespace
}  // namespace vesper::mixed_languages_test
