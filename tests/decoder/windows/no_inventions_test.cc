// Real models on sounds without words, and on speech that is difficult to recognize: no text is
// invented, and no speech is lost.
//
// The recordings are from Debian's pocketsphinx-testdata, the models from scripts/fetch-models.sh.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/audio/made_recordings.h"
#include "tests/decoder/greedy_settings.h"
#include "tests/decoder/made_sounds.h"
#include "tests/decoder/real_recordings.h"
#include "tests/fetched_model.h"

namespace vesper::no_inventions_test {
namespace {

using Samples = std::vector<float>;
constexpr size_t kSecond = 16000;

Samples silence(size_t n) { return Samples(n, 0.0f); }

Samples scaled(Samples samples, double decibels) {
  const auto gain = static_cast<float>(std::pow(10, decibels / 20));
  for (float& x : samples) x *= gain;
  return samples;
}

Samples joined(Samples a, const Samples& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Adds `sound` to `speech` at `decibels` below its power.
Samples mixed(Samples speech, const Samples& sound, double decibels) {
  double p = 0, q = 0;
  for (size_t i = 0; i < speech.size(); ++i) {
    p += speech[i] * speech[i];
    q += sound[i] * sound[i];
  }
  const auto gain = static_cast<float>(std::sqrt(p / q * std::pow(10, -decibels / 10)));
  for (size_t i = 0; i < speech.size(); ++i) speech[i] += gain * sound[i];
  return speech;
}

DecodingSettings greedy_with_fallback() {
  DecodingSettings settings;
  settings.beam_size = 1;
  return settings;
}

class NoInventions : public testing::TestWithParam<const char*> {
 protected:
  Transcript transcribe(const Samples& samples,
                        DecodingSettings settings = greedy_with_fallback()) {
    const std::string path = folder_.file("sound.wav");
    write_with_sndfile(path, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1, 16000, samples);
    settings.language = "en";
    return session_->transcribe({.path = path}, {.decoding = settings});
  }
  static std::string text(const Transcript& transcript) {
    std::string text;
    for (const Segment& segment : transcript.segments) text += segment.text;
    return text;
  }

  TemporaryFolder folder_;
  std::unique_ptr<SpeechSession> session_ = real_session(GetParam());
};

TEST_P(NoInventions, GivesNoTextForSilence) {
  EXPECT_EQ(text(transcribe(silence(35 * kSecond))), "");
  EXPECT_EQ(text(transcribe(noise(0.01f, 31 * kSecond, 1))), "");
  // The quietest noise that 16 bits represent.
  EXPECT_EQ(text(transcribe(noise(0.00005f, 5 * kSecond, 2))), "");
}

TEST_P(NoInventions, GivesNoTextForSoundsAndReportsDroppedText) {
  size_t n_noted = 0;
  for (const MadeSound& sound : made_sounds()) {
    const Transcript transcript = transcribe(scaled(sound.make(15 * kSecond, 1), -9));
    EXPECT_EQ(text(transcript), "") << sound.name;
    for (const DroppedSpan& span : transcript.dropped) {
      EXPECT_EQ(span.reason, "no speech") << sound.name;
      EXPECT_NE(span.text, "") << sound.name;
      EXPECT_EQ(span.start_s, 0) << sound.name;
      EXPECT_NEAR(span.end_s, 15, 0.011) << sound.name;
      ++n_noted;
    }
  }
  EXPECT_GT(n_noted, 0u);  // what openai-whisper would have shown
}

TEST_P(NoInventions, KeepsQuietSpeech) {
  const Samples loud = samples_of(librivox_sentence("0920"), 10);
  const std::string said = text(transcribe(loud));
  EXPECT_EQ(spoken_words(said).size(), 18u);
  EXPECT_LE(word_differences(text(transcribe(scaled(loud, -30))), said), 1u);
  EXPECT_LE(word_differences(text(transcribe(scaled(loud, -62))), said), 1u);
}

TEST_P(NoInventions, KeepsSpeechInNoise) {
  const Samples speech = samples_of(librivox_sentence("0920"), 10);
  const std::string said = text(transcribe(speech));
  EXPECT_LE(word_differences(text(transcribe(mixed(speech, noise(1, speech.size(), 3), 10))), said),
            1u);
}

// Sentences with a pause after each.
Samples sentences(const std::vector<std::string>& numbers, double pause_s) {
  Samples all;
  for (const std::string& number : numbers) {
    all = joined(std::move(all), samples_of(librivox_sentence(number), 10));
    all.resize(all.size() + static_cast<size_t>(pause_s * kSecond));
  }
  return all;
}

// Text with the same sentence three times is probable, but compresses as well as many inventions,
// and the pause before it raises the no-speech probability.
TEST_P(NoInventions, KeepsRepeatedSpeech) {
  // Without a VAD model tiny.en takes the end of the drill, a window of 3 s, for silence.
  session_->load_vad(fetched_model("silero-vad"));
  const Samples drill =
      joined(silence(2 * kSecond), sentences({"0880", "0920", "0880", "0920", "0880"}, 0.8));
  const Transcript transcript = transcribe(drill);
  EXPECT_TRUE(transcript.dropped.empty());
  EXPECT_NEAR(static_cast<double>(spoken_words(text(transcript)).size()), 57, 1);
}

TEST_P(NoInventions, GivesNoTextAfterSpeech) {
  const Samples speech = samples_of(librivox_sentence("0890"), 10);
  const std::string said = text(transcribe(speech));
  EXPECT_EQ(spoken_words(said).size(), 12u);
  const Samples after = scaled(made_sounds()[7].make(40 * kSecond, 1), -12);
  EXPECT_LE(word_differences(text(transcribe(joined(speech, after))), said), 1u);
}

// Raises the temperature as in the reference: text that always fails is decoded at the last one.
TEST_P(NoInventions, RaisesTheTemperatureByThresholds) {
  const Samples speech = samples_of(librivox_sentence("0930"), 10);
  DecodingSettings settings = greedy_settings();
  settings.policy = WindowPolicy::reference();
  settings.temperatures = {0, 0.1};
  const auto temperature = [&](const DecodingSettings& chosen) {
    const Transcript transcript = transcribe(speech, chosen);
    return transcript.segments.empty() ? -1 : transcript.segments[0].temperature;
  };
  EXPECT_EQ(temperature(settings), 0);
  settings.logprob_threshold = 0;  // all text is less probable
  EXPECT_EQ(temperature(settings), 0.1);
  settings.logprob_threshold = std::nullopt;
  EXPECT_EQ(temperature(settings), 0);
  settings.compression_ratio_threshold = 0.1;  // all text compresses better
  EXPECT_EQ(temperature(settings), 0.1);
  settings.compression_ratio_threshold = std::nullopt;
  EXPECT_EQ(temperature(settings), 0);
  // Otherwise the best of all attempts is kept, which is the most probable.
  settings.policy = {};
  settings.logprob_threshold = 0;
  EXPECT_EQ(temperature(settings), 0);
}

TEST_P(NoInventions, DropsWindowsAboveTheNoSpeechThreshold) {
  const Samples sound = noise(0.01f, 5 * kSecond, 1);
  DecodingSettings settings = greedy_settings();
  settings.policy = WindowPolicy::reference();
  settings.temperatures = {0, 0.1};
  settings.logprob_threshold = std::nullopt;
  EXPECT_EQ(text(transcribe(sound, settings)), "");
  settings.no_speech_threshold = 0.9999;
  EXPECT_NE(text(transcribe(sound, settings)), "");
  settings.no_speech_threshold = std::nullopt;
  EXPECT_NE(text(transcribe(sound, settings)), "");
}

INSTANTIATE_TEST_SUITE_P(Models, NoInventions, testing::Values("tiny.en", "base"),
                         [](const testing::TestParamInfo<const char*>& model) {
                           return model.index == 0 ? "tiny_en" : "base";
                         });

}  // namespace
}  // namespace vesper::no_inventions_test
