#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vesper.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "audio/samples.h"
#include "session/model_store.h"
#include "tests/audio/made_recordings.h"
#include "tests/capi/c_client.h"
#include "tests/child_process.h"
#include "tests/fetched_model.h"

namespace vesper {
namespace {

constexpr char kRecording[] =
    "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0930.wav";

std::string model_path() { return fetched_model("tiny.en").string(); }

TEST(CApi, WorksFromC) {
  char text[1024];
  EXPECT_EQ(c_client_transcribe(model_path().c_str(), kRecording, text, sizeof text), VESPER_OK)
      << vesper_last_error();
  EXPECT_STREQ(text, " He might even have been made amiable himself.");
}

TEST(CApi, ReturnsDocumentedStatuses) {
  EXPECT_EQ(c_client_first_wrong_status(model_path().c_str(), kRecording), 0)
      << vesper_last_error();
}

vesper_whisper_options on_cpu() {
  vesper_whisper_options options;
  vesper_whisper_options_init(&options, sizeof options);
  options.load.device = "cpu";
  return options;
}

vesper_transcribe_options default_options() {
  vesper_transcribe_options options;
  vesper_transcribe_options_init(&options, sizeof options);
  return options;
}

vesper_pcm pcm_of(const std::vector<float>& samples, size_t n) {
  return {samples.data(), n, 16000, 1};
}

// The segments of the C API, in the JSON format of `transcribe`.
nlohmann::json c_segments(const std::string& model, const vesper_transcribe_options& options) {
  vesper_whisper* whisper = nullptr;
  const vesper_whisper_options device = on_cpu();
  EXPECT_EQ(vesper_whisper_open(model.c_str(), &device, &whisper), VESPER_OK);
  nlohmann::json segments = nlohmann::json::array();
  const auto hear = [](const vesper_segment* segment, void* user) {
    static_cast<nlohmann::json*>(user)->push_back({{"text", segment->text},
                                                   {"start", segment->start_s},
                                                   {"end", segment->end_s},
                                                   {"language", segment->language},
                                                   {"avg_logprob", segment->avg_logprob},
                                                   {"no_speech_prob", segment->no_speech_prob}});
    return 0;
  };
  EXPECT_EQ(vesper_whisper_transcribe_file(whisper, kRecording, &options, hear, &segments, nullptr),
            VESPER_OK)
      << vesper_last_error();
  vesper_whisper_close(whisper);
  return segments;
}

// The segments that both give.
void expect_as_the_program(const std::string& model, const vesper_transcribe_options& options,
                           std::vector<std::string> arguments, nlohmann::json& segments) {
  std::vector<std::string> command = {TRANSCRIBE, "-q",  "--offline", "--device", "cpu",
                                      "-m",       model, "-f",        "json"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.push_back(kRecording);
  const ChildResult result = run_child(command, {});
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json expected = nlohmann::json::parse(result.out);
  segments = c_segments(model, options);
  ASSERT_FALSE(segments.empty());
  ASSERT_EQ(segments.size(), expected["segments"].size());
  for (size_t i = 0; i < segments.size(); ++i) {
    const nlohmann::json& found = segments[i];
    const nlohmann::json& wanted = expected["segments"][i];
    EXPECT_EQ(found["text"], wanted["text"]);
    EXPECT_EQ(found["language"], expected["language"]);
    for (const char* number : {"start", "end", "avg_logprob", "no_speech_prob"}) {
      EXPECT_NEAR(found[number].get<double>(), wanted[number].get<double>(), 1e-3) << number;
    }
  }
}

TEST(CApi, HasTheDefaultsOfTheProgram) {
  nlohmann::json segments;
  expect_as_the_program(model_path(), default_options(), {}, segments);
}

TEST(CApi, HasTheOptionsOfTheProgram) {
  const std::string base = fetched_model("base").string();
  fetched_model("silero-vad");
  nlohmann::json plain, prompted, german, translated;
  expect_as_the_program(base, default_options(), {}, plain);
  vesper_transcribe_options options = default_options();
  options.initial_prompt = "Amiable AMIABLE";
  options.vad = 1;
  expect_as_the_program(base, options, {"--initial-prompt", "Amiable AMIABLE", "--vad"}, prompted);
  options = default_options();
  options.language = "de";
  expect_as_the_program(base, options, {"--language", "de"}, german);
  options.task = VESPER_TASK_TRANSLATE;
  expect_as_the_program(base, options, {"--language", "de", "--task", "translate"}, translated);
  // Each option has an effect.
  EXPECT_EQ(plain.at(0)["language"], "en");
  EXPECT_EQ(german.at(0)["language"], "de");
  EXPECT_NE(prompted.at(0)["avg_logprob"], plain.at(0)["avg_logprob"]);
  EXPECT_NE(translated.at(0)["avg_logprob"], german.at(0)["avg_logprob"]);
}

TEST(CApi, ACallbackCanStopTheTranscription) {
  vesper_whisper* whisper = nullptr;
  const vesper_whisper_options options = on_cpu();
  ASSERT_EQ(vesper_whisper_open(model_path().c_str(), &options, &whisper), VESPER_OK);
  const auto stop = [](const vesper_segment*, void* user) {
    ++*static_cast<int*>(user);
    return 1;
  };
  int n_calls = 0;
  EXPECT_EQ(vesper_whisper_transcribe_file(whisper, kRecording, nullptr, stop, &n_calls, nullptr),
            VESPER_ERROR_STOPPED);
  EXPECT_EQ(vesper_whisper_transcribe_file(whisper, kRecording, nullptr, stop, &n_calls, nullptr),
            VESPER_ERROR_STOPPED);
  EXPECT_EQ(n_calls, 2);
  vesper_whisper_close(whisper);
}

TEST(CApi, RefusesNaN) {
  vesper_whisper* whisper = nullptr;
  const vesper_whisper_options options = on_cpu();
  ASSERT_EQ(vesper_whisper_open(model_path().c_str(), &options, &whisper), VESPER_OK);
  std::vector<float> samples(16000, 0.0f);
  samples[77] = NAN;
  const vesper_pcm pcm = pcm_of(samples, samples.size()), none = pcm_of(samples, 0);
  EXPECT_EQ(vesper_whisper_transcribe_pcm(whisper, &pcm, nullptr, nullptr, nullptr, nullptr),
            VESPER_ERROR_INPUT);
  EXPECT_THAT(vesper_last_error(), testing::HasSubstr("at 0.004812 s"));
  EXPECT_EQ(vesper_whisper_transcribe_pcm(whisper, &none, nullptr, nullptr, nullptr, nullptr),
            VESPER_OK);
  vesper_whisper_close(whisper);
}

TEST(CApi, LoadsTheVadModelThatIsInstalled) {
  const std::string model = model_path();
  const TemporaryFolder models;
  const ScopedEnvironment places("VESPER_MODELS", models.path().string());
  std::filesystem::create_directories(models / kVadModel);
  write_file(models / "silero-vad/silero_vad_16k.safetensors", "damaged");
  vesper_whisper* whisper = nullptr;
  const vesper_whisper_options options = on_cpu();
  EXPECT_EQ(vesper_whisper_open(model.c_str(), &options, &whisper), VESPER_ERROR_MODEL);
  EXPECT_THAT(vesper_last_error(), testing::HasSubstr("silero_vad_16k.safetensors"));
  EXPECT_EQ(whisper, nullptr);
}

TEST(CApi, OmitsSilenceWithVad) {
  vesper_whisper* whisper = nullptr;
  const vesper_whisper_options options = on_cpu();
  ASSERT_EQ(vesper_whisper_open(model_path().c_str(), &options, &whisper), VESPER_OK);
  // 20 s of silence, then the sentence.
  constexpr size_t kSilence = 20 * 16000;
  std::vector<float> samples(kSilence);
  const std::vector<float> sentence = read_samples(kRecording);
  samples.insert(samples.end(), sentence.begin(), sentence.end());

  const vesper_pcm pcm = pcm_of(samples, samples.size()), quiet = pcm_of(samples, kSilence);
  vesper_transcribe_options speech = default_options();
  speech.vad = 1;
  EXPECT_EQ(vesper_whisper_load_vad(whisper, nullptr), VESPER_OK);
  EXPECT_EQ(vesper_whisper_transcribe_pcm(whisper, &pcm, &speech, nullptr, nullptr, nullptr),
            VESPER_ERROR_USAGE);
  EXPECT_THAT(vesper_last_error(), testing::HasSubstr("expected a VAD model to be loaded"));
  EXPECT_EQ(vesper_whisper_load_vad(whisper, "/no/such/model"), VESPER_ERROR_MODEL);
  ASSERT_EQ(vesper_whisper_load_vad(whisper, fetched_model("silero-vad").c_str()), VESPER_OK)
      << vesper_last_error();

  struct Heard {
    std::string text;
    double start_s = -1;
  };
  const auto hear = [](const vesper_segment* segment, void* user) {
    auto& heard = *static_cast<Heard*>(user);
    heard.text += segment->text;
    if (heard.start_s < 0) heard.start_s = segment->start_s;
    return 0;
  };
  // A cancelled one leaves no state for the next.
  const TemporaryFolder folder;
  const std::string broken = folder.file("broken.wav");
  std::vector<float> breaking = noise(0.1f, 3 * 16000, 1);
  breaking.back() = NAN;
  write_with_sndfile(broken, SF_FORMAT_WAV | SF_FORMAT_FLOAT, 1, 16000, breaking);
  EXPECT_EQ(
      vesper_whisper_transcribe_file(whisper, broken.c_str(), &speech, nullptr, nullptr, nullptr),
      VESPER_ERROR_INPUT);
  Heard heard;
  ASSERT_EQ(vesper_whisper_transcribe_pcm(whisper, &pcm, &speech, hear, &heard, nullptr),
            VESPER_OK);
  EXPECT_EQ(heard.text, " He might even have been made amiable himself.");
  EXPECT_NEAR(heard.start_s, 20, 0.6);
  // Silence has no text.
  Heard silence;
  EXPECT_EQ(vesper_whisper_transcribe_pcm(whisper, &quiet, &speech, hear, &silence, nullptr),
            VESPER_OK);
  EXPECT_EQ(silence.text, "");
  vesper_whisper_close(whisper);
}

}  // namespace
}  // namespace vesper
