// The language of windows, by a tiny Whisper with random weights whose windows are 5 s: what it
// hears is nonsense, but it hears it in the same language each time.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <set>

#include "audio/mel.h"
#include "decoder/transcriber.h"
#include "error/error.h"
#include "tests/llm/tiny_whisper_files.h"

namespace vesper::mixed_languages_test {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kWindowFrames = 500;

class MixedLanguages : public testing::Test {
 protected:
  MixedLanguages()
      : folder_(made_folder()),
        model_(folder_, open_device("cpu", {.n_threads = 1}), Compute::kF32),
        transcriber_(model_),
        mel_(80, model_.mel_filters()) {
    // Windows as different as can be: noise, a tone, silence, soft noise.
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
    settings_.without_timestamps = true;  // so that windows lie side by side
    settings_.max_new_tokens = 8;
  }
  ~MixedLanguages() override { fs::remove_all(folder_); }

  static fs::path made_folder() {
    test::TinyWhisperOptions options;
    options.n_audio_ctx = kWindowFrames / 2;
    options.n_text_ctx = 64;
    std::string pattern = (fs::temp_directory_path() / "vesper-languages-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
    test::write_files(test::TinyWhisper(options).ctranslate2(DType::kF32), pattern);
    return pattern;
  }

  // What the model says of window i alone.
  std::vector<float> probabilities(uint32_t i) {
    std::vector<float> window(size_t{model_.n_frames()} * model_.n_mels());
    MelWindow cut;
    cut.first_frame = i * kWindowFrames;
    cut.n_frames = kWindowFrames;
    mel_.window(cut, window.data());
    const float* const windows[] = {window.data()};
    model_.encode(windows);
    return model_.decoder().language_probabilities();
  }

  std::vector<std::string> languages_of_windows() {
    std::vector<std::string> languages;
    for (const Segment& segment : transcriber_.transcribe(mel_, settings_, {}, {}).segments) {
      languages.push_back(segment.language);
    }
    return languages;
  }

  fs::path folder_;
  WhisperModel model_;
  Transcriber transcriber_;
  MelSpectrogram mel_;
  DecodingSettings settings_;
};

TEST_F(MixedLanguages, AreDetectedInEveryWindowOnRequest) {
  std::vector<std::string> expected;
  for (uint32_t i = 0; i < 4; ++i) {
    expected.push_back(ranked_languages(probabilities(i)).front().language);
  }
  ASSERT_GT(std::set(expected.begin(), expected.end()).size(), 1u) << "the windows do not differ";
  EXPECT_EQ(languages_of_windows(), std::vector(4, expected[0])) << "the first window's";
  settings_.multilingual = true;
  settings_.language_detection_threshold = 0;
  EXPECT_EQ(languages_of_windows(), expected);
  settings_.language_detection_threshold = 0.999;
  EXPECT_EQ(languages_of_windows(), std::vector(4, expected[0])) << "none is likely enough";
}

TEST_F(MixedLanguages, AreVotedOnBySeveralWindows) {
  settings_.language_detection_threshold = 1;
  settings_.language_detection_segments = 3;
  LanguageVote vote(1);
  for (uint32_t i = 0; i < 3; ++i) vote.add(probabilities(i));
  const auto expected = ranked_languages(vote.result());
  const auto found = transcriber_.detect_languages(mel_, settings_);
  ASSERT_EQ(found.size(), 99u);
  EXPECT_EQ(found[0].language, expected[0].language);
  EXPECT_EQ(found[0].probability, expected[0].probability);
  EXPECT_NE(found[0].probability, ranked_languages(probabilities(0))[0].probability);
  EXPECT_EQ(languages_of_windows(), std::vector(4, expected[0].language));
  // A threshold that the first window passes.
  settings_.language_detection_threshold = 0;
  EXPECT_EQ(transcriber_.detect_languages(mel_, settings_)[0].probability,
            ranked_languages(probabilities(0))[0].probability);
  // From the first clip on.
  settings_.clip_timestamps = {5};
  EXPECT_EQ(transcriber_.detect_languages(mel_, settings_)[0].probability,
            ranked_languages(probabilities(1))[0].probability);
}

}  // namespace
}  // namespace vesper::mixed_languages_test
