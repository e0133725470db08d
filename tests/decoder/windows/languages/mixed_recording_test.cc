// The real base model (from scripts/fetch-models.sh) on a recording of two alternating languages:
// English sentences of Debian's pocketsphinx-testdata, French prompts of its
// asterisk-core-sounds-fr-wav.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "error/error.h"
#include "tests/audio/made_recordings.h"
#include "tests/decoder/greedy_settings.h"
#include "tests/decoder/real_recordings.h"

namespace vesper::mixed_recording_test {
namespace {

using testing::ElementsAre;

constexpr size_t kSecond = 16000;

struct Part {
  std::string language, path;
};

std::string french(const std::string& name) {
  return "/usr/share/asterisk/sounds/fr_CA_f_June/" + name + ".wav";
}

TEST(MixedRecording, IsTranscribedInEachLanguage) {
  const std::vector<Part> parts = {{"en", librivox_sentence("0870")},
                                   {"fr", french("vm-opts")},
                                   {"en", librivox_sentence("0880")},
                                   {"fr", french("demo-moreinfo")},
                                   {"en", librivox_sentence("0930")}};
  const std::unique_ptr<SpeechSession> session = real_session("base");
  const TemporaryFolder folder;
  const std::string path = folder.file("mixed.wav");
  std::vector<float> samples;
  for (const Part& part : parts) {
    const std::vector<float> sound = samples_of(part.path, 20);
    samples.insert(samples.end(), sound.begin(), sound.end());
    samples.resize(samples.size() + kSecond / 2);
  }
  write_with_sndfile(path, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1, 16000, samples);

  DecodingSettings settings = greedy_settings();
  const Transcript plain = session->transcribe({.path = path}, {.decoding = settings});
  for (const Segment& segment : plain.segments) EXPECT_EQ(segment.language, "en") << segment.text;

  settings.multilingual = true;
  const Transcript mixed = session->transcribe({.path = path}, {.decoding = settings});
  EXPECT_EQ(mixed.language, "en");
  std::vector<std::string> languages, texts;
  for (const Segment& segment : mixed.segments) {
    if (languages.empty() || languages.back() != segment.language) {
      languages.push_back(segment.language);
      texts.emplace_back();
    }
    texts.back() += segment.text;
  }
  ASSERT_THAT(languages, ElementsAre("en", "fr", "en", "fr", "en"));
  for (size_t i = 0; i < parts.size(); ++i) {
    DecodingSettings alone = greedy_settings();
    alone.language = parts[i].language;
    std::string text;
    for (const Segment& segment :
         session->transcribe({.path = parts[i].path}, {.decoding = alone}).segments) {
      text += segment.text;
    }
    EXPECT_EQ(spoken_words(texts[i]), spoken_words(text));
  }

  // The windows of a stream also end where the language changes.
  std::string captions;
  SpeechEvents events;
  events.on_final = [&](std::span<const CaptionWord> words, double) {
    for (const CaptionWord& word : words) captions += word.text;
  };
  const Transcript live =
      session->transcribe_live({.path = path}, {.decoding = settings}, events).transcript;
  std::string mixed_text, live_text;
  std::vector<std::string> live_languages;
  for (const Segment& segment : mixed.segments) mixed_text += segment.text;
  for (const Segment& segment : live.segments) {
    live_text += segment.text;
    if (live_languages.empty() || live_languages.back() != segment.language) {
      live_languages.push_back(segment.language);
    }
  }
  EXPECT_EQ(live.language, "en");
  EXPECT_EQ(live_languages, languages);
  EXPECT_EQ(spoken_words(live_text), spoken_words(mixed_text));
  EXPECT_EQ(captions, live_text);
}

TEST(MixedRecording, IsRefusedByAnEnglishModel) {
  const std::unique_ptr<SpeechSession> session = real_session("tiny.en");
  DecodingSettings settings = greedy_settings();
  settings.multilingual = true;
  try {
    session->transcribe({.path = librivox_sentence("0930")}, {.decoding = settings});
    FAIL() << "was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), testing::HasSubstr("knows English only"));
  }
}

}  // namespace
}  // namespace vesper::mixed_recording_test
