#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vesper.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "audio/samples.h"
#include "session/models/model_store.h"
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

// Everything that `transcribe` writes with these arguments, by format.
std::map<std::string, std::string> files_of_the_program(std::vector<std::string> arguments,
                                                        const std::string& recording) {
  const TemporaryFolder out;
  std::vector<std::string> command = {TRANSCRIBE, "-q",  "--offline", "--device",         "cpu",
                                      "-f",       "all", "-o",        out.path().string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.push_back(recording);
  const ChildResult result = run_child(command, {});
  EXPECT_EQ(result.status, 0) << result.err;
  std::map<std::string, std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(out.path())) {
    files[file.path().extension().string().substr(1)] = bytes_of(file.path().string());
  }
  return files;
}

void expect_the_bytes(const std::map<std::string, std::string>& files, const std::string& model,
                      const vesper_whisper_options& settings,
                      const vesper_transcribe_options& options, const std::string& recording) {
  vesper_whisper* whisper = nullptr;
  ASSERT_EQ(vesper_whisper_open(model.c_str(), &settings, &whisper), VESPER_OK)
      << vesper_last_error();
  vesper_transcript* transcript = nullptr;
  ASSERT_EQ(vesper_whisper_transcribe_file(whisper, recording.c_str(), &options, nullptr, nullptr,
                                           &transcript),
            VESPER_OK)
      << vesper_last_error();
  vesper_format_options layout;
  vesper_format_options_init(&layout, sizeof layout);
  layout.file = recording.c_str();
  layout.model = model.c_str();
  EXPECT_EQ(files.size(), 8u);
  for (const auto& [format, bytes] : files) {
    char* text = nullptr;
    ASSERT_EQ(vesper_transcript_format(transcript, format.c_str(), &layout, &text), VESPER_OK);
    EXPECT_EQ(text, bytes) << format;
    vesper_string_free(text);
  }
  vesper_transcript_free(transcript);
  vesper_whisper_close(whisper);
}

TEST(CApi, HasTheBytesOfTheProgramInEveryFormat) {
  const std::string model = model_path();
  fetched_model("silero-vad");
  vesper_transcribe_options options = default_options();
  expect_the_bytes(files_of_the_program({"-m", model}, kRecording), model, on_cpu(), options,
                   kRecording);
  options.word_timestamps = 1;
  expect_the_bytes(files_of_the_program({"-m", model, "--word-timestamps"}, kRecording), model,
                   on_cpu(), options, kRecording);
  // Speech, silence and speech, in batches.
  const TemporaryFolder folder;
  const std::string path = folder.file("twice.wav");
  const std::vector<float> sentence = read_samples(kRecording);
  std::vector<float> samples = sentence;
  samples.resize(samples.size() + 5 * 16000);
  samples.insert(samples.end(), sentence.begin(), sentence.end());
  write_with_sndfile(path, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1, 16000, samples);
  options.vad = 1;
  vesper_whisper_options batches = on_cpu();
  batches.batch_size = 4;
  expect_the_bytes(
      files_of_the_program({"-m", model, "--word-timestamps", "--vad", "--batch-size", "4"}, path),
      model, batches, options, path);
}

std::vector<std::pair<double, double>> speech(vesper_whisper* whisper,
                                              const std::vector<float>& samples,
                                              const vesper_transcribe_options& options) {
  const vesper_pcm pcm = pcm_of(samples, samples.size());
  vesper_speech_range* ranges = nullptr;
  size_t n = 0;
  EXPECT_EQ(vesper_whisper_find_speech_pcm(whisper, &pcm, &options, &ranges, &n), VESPER_OK)
      << vesper_last_error();
  std::vector<std::pair<double, double>> found;
  for (size_t i = 0; i < n; ++i) found.emplace_back(ranges[i].start_s, ranges[i].end_s);
  vesper_ranges_free(ranges);
  return found;
}

TEST(CApi, FindsSpeechByTheSettingsOfVoiceActivity) {
  const std::string vad = fetched_model("silero-vad").string();
  vesper_whisper_options settings = on_cpu();
  settings.vad_model = vad.c_str();
  vesper_whisper* whisper = nullptr;
  ASSERT_EQ(vesper_whisper_open(model_path().c_str(), &settings, &whisper), VESPER_OK);
  // 3 s of silence, then the sentence twice with 1 s between, then 3 s of silence.
  const std::vector<float> sentence = read_samples(kRecording);
  std::vector<float> samples(3 * 16000);
  samples.insert(samples.end(), sentence.begin(), sentence.end());
  samples.resize(samples.size() + 16000);
  samples.insert(samples.end(), sentence.begin(), sentence.end());
  samples.resize(samples.size() + 3 * 16000);

  vesper_transcribe_options options = default_options();
  const auto usual = speech(whisper, samples, options);
  ASSERT_EQ(usual.size(), 1u);
  EXPECT_NEAR(usual[0].first, 3 - 0.4, 0.5);
  const double end_s = static_cast<double>(samples.size()) / 16000;
  EXPECT_NEAR(usual[0].second, end_s - 3 + 0.4, 0.6);

  const auto expect_change = [&](const char* field, const auto& set) {
    vesper_transcribe_options changed = default_options();
    changed.vad_min_silence_ms = 100;
    const auto before = speech(whisper, samples, changed);
    set(changed);
    EXPECT_NE(speech(whisper, samples, changed), before) << field;
  };
  expect_change("vad_threshold", [](auto& o) { o.vad_threshold = 0.99; });
  expect_change("vad_neg_threshold", [](auto& o) { o.vad_neg_threshold = 0.98; });
  expect_change("vad_min_speech_ms", [](auto& o) { o.vad_min_speech_ms = 60000; });
  expect_change("vad_min_silence_ms", [](auto& o) { o.vad_min_silence_ms = 2000; });
  expect_change("vad_pad_ms", [](auto& o) { o.vad_pad_ms = 0; });
  expect_change("vad_max_speech_s", [](auto& o) { o.vad_max_speech_s = 1; });

  // The same from a file; silence has none.
  const TemporaryFolder folder;
  const std::string path = folder.file("speech.wav");
  write_with_sndfile(path, SF_FORMAT_WAV | SF_FORMAT_FLOAT, 1, 16000, samples);
  vesper_speech_range* ranges = nullptr;
  size_t n = 0;
  ASSERT_EQ(vesper_whisper_find_speech_file(whisper, path.c_str(), nullptr, &ranges, &n),
            VESPER_OK);
  ASSERT_EQ(n, 1u);
  EXPECT_EQ(ranges[0].start_s, usual[0].first);
  EXPECT_EQ(ranges[0].end_s, usual[0].second);
  vesper_ranges_free(ranges);
  EXPECT_TRUE(speech(whisper, std::vector<float>(32000), options).empty());
  vesper_whisper_close(whisper);
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
  EXPECT_THAT(vesper_last_error(), testing::HasSubstr("at 0.0048125 s"));
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
