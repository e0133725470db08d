// Word time settings in a whole transcription with a tiny Whisper of random weights: it has text in
// every window, and none of it is probable.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "decoder/transcript/segment_cutting.h"
#include "decoder/windows/recording_transcriber.h"
#include "llm/devices/open_device.h"
#include "tests/decoder/greedy_settings.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::word_options_test {
namespace {

class WordOptions : public testing::Test {
 protected:
  WordOptions() {
    model_ = std::make_unique<WhisperModel>(folder_.path(), open_device("cpu", {.n_threads = 2}),
                                            Compute::kF32);
    settings_.language = "en";
    settings_.policy = WindowPolicy::reference();
    settings_.no_speech_threshold.reset();
    settings_.logprob_threshold.reset();
    settings_.compression_ratio_threshold.reset();
    settings_.condition_on_previous_text = false;
    // Windows full of words of all kinds.
    settings_.suppress_tokens = {model_->tokens().eot};
    settings_.temperatures = {1};
    settings_.best_of = 1;
    settings_.without_timestamps = true;
  }

  // The segments of 6 s of noise.
  std::vector<Segment> heard() const {
    MelSpectrogram mel(static_cast<int>(model_->n_mels()), model_->mel_filters());
    std::mt19937 random(7);
    std::normal_distribution<float> noise(0.0f, 0.1f);
    std::vector<float> samples(6 * 16000);
    for (float& sample : samples) sample = noise(random);
    mel.push(samples.data(), samples.size());
    mel.finish();
    return transcribe_recording(*model_, mel, settings_, {}, {}).segments;
  }

  static std::string text_of(const std::vector<Segment>& segments) {
    std::string text;
    for (const Segment& segment : segments) text += segment.text;
    return text;
  }

  // Windows of 3 s.
  const test::ModelFolder folder_{
      test::TinyWhisper({.n_audio_ctx = 150, .n_text_ctx = 60}).ctranslate2(DType::kF32)};
  std::unique_ptr<WhisperModel> model_;
  DecodingSettings settings_ = greedy_settings();
};

TEST_F(WordOptions, WordsHaveTimesAndTheTextOfTheSegment) {
  std::vector<Segment> segments = heard();
  ASSERT_FALSE(segments.empty());
  for (const Segment& segment : segments) EXPECT_TRUE(segment.words.empty());
  settings_.word_timestamps = true;
  segments = heard();
  ASSERT_FALSE(segments.empty());
  std::string words;
  for (const Segment& segment : segments) {
    ASSERT_FALSE(segment.words.empty());
    EXPECT_EQ(segment.start_s, segment.words.front().start_s);
    for (const Word& word : segment.words) {
      words += word.text;
      EXPECT_LE(word.start_s, word.end_s);
      EXPECT_GT(word.probability, 0);
      EXPECT_LT(word.probability, 1);
    }
  }
  EXPECT_EQ(words, text_of(segments));
}

TEST_F(WordOptions, HallucinationsBetweenSilencesAreDropped) {
  settings_.word_timestamps = true;
  ASSERT_FALSE(heard().empty());
  settings_.hallucination_silence_threshold_s = 1.0;
  EXPECT_TRUE(heard().empty());
}

TEST_F(WordOptions, SegmentsAreCutBetweenTokensOrWords) {
  settings_.word_timestamps = true;
  const std::vector<Segment> whole = heard();
  settings_.max_segment_length = 6;
  const std::vector<Segment> by_token = heard();
  settings_.split_on_word = true;
  const std::vector<Segment> by_word = heard();
  EXPECT_GT(by_word.size(), whole.size());
  EXPECT_GT(by_token.size(), by_word.size());
  EXPECT_EQ(text_of(by_token), text_of(whole));
  EXPECT_EQ(text_of(by_word), text_of(whole));
  const auto is_cut_inside_a_word = [](const Segment& segment) {
    return !segment.text.starts_with(' ') &&
           std::isalpha(static_cast<unsigned char>(segment.text[0]));
  };
  EXPECT_TRUE(std::any_of(by_token.begin() + 1, by_token.end(), is_cut_inside_a_word));
  for (size_t i = 0; i < by_word.size(); ++i) {
    EXPECT_EQ(by_word[i].id, static_cast<int>(i));
    if (by_word[i].words.size() > 1) {
      EXPECT_LE(count_characters(by_word[i].text), 6u + 1u) << by_word[i].text;
    }
  }
}

TEST_F(WordOptions, PunctuationJoinsWords) {
  settings_.word_timestamps = true;
  const auto words = [&] {
    std::vector<std::string> texts;
    for (const Segment& segment : heard()) {
      for (const Word& word : segment.words) texts.push_back(word.text);
    }
    return texts;
  };
  settings_.punctuation = {.prepended = "", .appended = ""};
  const std::vector<std::string> apart = words();
  ASSERT_GT(apart.size(), 4u);
  // Any word may be punctuation.
  ASSERT_TRUE(apart[2].starts_with(' ')) << apart[2];
  settings_.punctuation.appended = apart[2];
  EXPECT_EQ(words()[1], apart[1] + apart[2]);
  settings_.punctuation = {.prepended = apart[2].substr(1), .appended = ""};
  EXPECT_EQ(words()[2], apart[2] + apart[3]);
}

}  // namespace
}  // namespace vesper::word_options_test
