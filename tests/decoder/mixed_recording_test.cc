// The real base model (as scripts/fetch-models.sh gets it) on a recording of two languages that
// take turns: English sentences of Debian's pocketsphinx-testdata, French prompts of its
// asterisk-core-sounds-fr-wav.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "audio/recording.h"
#include "cli/model_lookup.h"
#include "cli/whisper_engine.h"
#include "error/error.h"
#include "tests/audio/made_recordings.h"

namespace vesper::mixed_recording_test {
namespace {

using testing::ElementsAre;

constexpr size_t kSecond = 16000;

struct Part {
  std::string language, path;
};

std::string english(const std::string& number) {
  return "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-" +
         number + ".wav";
}

std::string french(const std::string& name) {
  return "/usr/share/asterisk/sounds/fr_CA_f_June/" + name + ".wav";
}

std::vector<float> sound_of(const std::string& path) {
  RecordingReader reader{AudioReader(path)};
  std::vector<float> samples(20 * kSecond);
  samples.resize(reader.read(samples.data(), samples.size()));
  return samples;
}

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) {
    std::erase_if(word, [](char c) { return std::ispunct(static_cast<unsigned char>(c)); });
    for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

TEST(MixedRecording, IsTranscribedInTheLanguageOfEachPart) {
  const std::vector<Part> parts = {{"en", english("0870")},
                                   {"fr", french("vm-opts")},
                                   {"en", english("0880")},
                                   {"fr", french("demo-moreinfo")},
                                   {"en", english("0930")}};
  for (const Part& part : parts) {
    if (!std::filesystem::exists(part.path)) GTEST_SKIP() << "not installed: " << part.path;
  }
  EngineSettings engine_settings;
  ModelLookup lookup;
  lookup.offline = true;
  try {
    engine_settings.model = find_model("base", lookup);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  engine_settings.device = "cpu";
  const std::unique_ptr<TranscriptionEngine> engine = load_whisper_engine(engine_settings);

  const TemporaryFolder folder;
  const std::string path = folder.file("mixed.wav");
  std::vector<float> samples;
  for (const Part& part : parts) {
    const std::vector<float> sound = sound_of(part.path);
    samples.insert(samples.end(), sound.begin(), sound.end());
    samples.resize(samples.size() + kSecond / 2);
  }
  write_with_sndfile(path, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1, 16000, samples);

  DecodingSettings settings;
  const Transcript plain = engine->transcribe({path, {}}, settings, {}, {});
  for (const Segment& segment : plain.segments) EXPECT_EQ(segment.language, "en") << segment.text;

  settings.multilingual = true;
  const Transcript mixed = engine->transcribe({path, {}}, settings, {}, {});
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
    DecodingSettings alone;
    alone.language = parts[i].language;
    std::string text;
    for (const Segment& segment : engine->transcribe({parts[i].path, {}}, alone, {}, {}).segments) {
      text += segment.text;
    }
    EXPECT_EQ(words(texts[i]), words(text));
  }
}

}  // namespace
}  // namespace vesper::mixed_recording_test
