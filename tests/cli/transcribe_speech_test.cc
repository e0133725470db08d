// The built `transcribe` with tiny.en and Silero VAD from scripts/fetch-models.sh, on recordings of
// Debian's pocketsphinx-testdata.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "audio/samples.h"
#include "tests/audio/made_recordings.h"
#include "tests/child_process.h"
#include "tests/fetched_model.h"

namespace vesper::transcribe_speech_test {
namespace {

using nlohmann::json;

constexpr size_t kRate = 16000;

class TranscribeSpeech : public testing::Test {
 protected:
  ChildResult transcribe(const std::vector<std::string>& options, const std::string& path) const {
    std::vector<std::string> command = {TRANSCRIBE,  "--offline", "--device", "cpu",
                                        "--compute", "f32",       "-m",       model_};
    command.insert(command.end(), options.begin(), options.end());
    command.push_back(path);
    return run_child(command, {});
  }
  json segments_of(std::vector<std::string> options, const std::string& path) const {
    options.insert(options.end(), {"--word-timestamps", "-f", "json"});
    const ChildResult result = transcribe(options, path);
    EXPECT_EQ(result.status, 0) << result.err;
    const json transcript = json::parse(result.out, nullptr, false);
    EXPECT_TRUE(transcript.contains("segments")) << result.out;
    return transcript.value("segments", json::array());
  }
  std::string write(const std::string& name, const std::vector<float>& samples) const {
    const std::string path = folder_.file(name);
    write_with_sndfile(path, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1, kRate, samples);
    return path;
  }

  const std::string model_ = fetched_model("tiny.en").string();
  TemporaryFolder folder_;
};

std::string librivox(const char* number) {
  return std::string(
             "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-") +
         number + ".wav";
}

// Sentences in two minutes of silence: their words have the times of the recording, in one batch of
// speech segments and one after another.
TEST_F(TranscribeSpeech, HasTheTimesOfTheRecordingWithVad) {
  const std::string vad = fetched_model("silero-vad").string();
  const std::pair<size_t, const char*> sentences[] = {
      {10, "0930"}, {40, "0920"}, {75, "0930"}, {101, "0920"}};
  std::vector<float> samples(120 * kRate);
  struct SpokenWord {
    std::string text;
    double end_s;
  };
  std::vector<SpokenWord> wanted;
  for (const auto& [second, number] : sentences) {
    const std::vector<float> sentence = read_samples(librivox(number));
    std::copy(sentence.begin(), sentence.end(),
              samples.begin() + static_cast<std::ptrdiff_t>(second * kRate));
    for (const json& segment : segments_of({}, librivox(number))) {
      for (const json& word : segment["words"]) {
        wanted.push_back({word["word"], static_cast<double>(second) + word["end"].get<double>()});
      }
    }
  }
  ASSERT_EQ(wanted.size(), 8u + 18u + 8u + 18u);
  const std::string path = write("speech.wav", samples);
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--vad"}, {"--vad", "--batch-size", "4"}}) {
    SCOPED_TRACE(options.back());
    std::vector<SpokenWord> found;
    for (const json& segment : segments_of(options, path)) {
      EXPECT_EQ(segment["start"], segment["words"].front()["start"]);
      EXPECT_EQ(segment["end"], segment["words"].back()["end"]);
      for (const json& word : segment["words"]) found.push_back({word["word"], word["end"]});
    }
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].text, wanted[i].text) << i;
      EXPECT_NEAR(found[i].end_s, wanted[i].end_s, 0.4) << i << found[i].text;
    }
  }
}

// openai-whisper 20250625 hears "You" in silence, too.
TEST_F(TranscribeSpeech, InventsTextOnlyAsTheReference) {
  const std::string silence = write("silence.wav", std::vector<float>(15 * kRate));
  const ChildResult reference = transcribe({"--reference"}, silence);
  EXPECT_EQ(reference.status, 0) << reference.err;
  EXPECT_EQ(reference.out, "You\n");
  EXPECT_EQ(transcribe({}, silence).out, "");
}

}  // namespace
}  // namespace vesper::transcribe_speech_test
