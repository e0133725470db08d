// The speech functions of the C API with a tiny Whisper of random weights.
#include <gtest/gtest.h>
#include <pthread.h>
#include <vesper.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "session/speech/speech_options.h"
#include "tests/audio/made_recordings.h"
#include "tests/capi/speech_client.h"
#include "tests/child_process.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::capi_speech_test {
namespace {

// Two seconds of two channels, each with a noise of its own, and a model with windows of a second.
class SpeechOfTheCApi : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    test::TinyWhisperOptions tiny;
    tiny.n_audio_ctx = 50;
    tiny.n_text_ctx = 160;
    test::write_files(test::TinyWhisper(tiny).ctranslate2(DType::kF32), model());
    const std::vector<float> left = noise(0.3f, 32000, 1), right = noise(0.1f, 32000, 2);
    std::vector<float> interleaved;
    for (size_t i = 0; i < left.size(); ++i) {
      interleaved.push_back(left[i]);
      interleaved.push_back(right[i]);
    }
    write_with_sndfile(stereo(), SF_FORMAT_WAV | SF_FORMAT_PCM_16, 2, 16000, interleaved);
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static std::string model() { return folder_->file("model"); }
  static std::string stereo() { return folder_->file("stereo.wav"); }

  static vesper_whisper* open() {
    vesper_whisper_options options;
    tiny_whisper_options(&options);
    vesper_whisper* whisper = nullptr;
    EXPECT_EQ(vesper_whisper_open(model().c_str(), &options, &whisper), VESPER_OK)
        << vesper_last_error();
    return whisper;
  }

  static void expect_none(const char* failed_check) {
    EXPECT_EQ(failed_check, nullptr) << failed_check << "\nlast error: " << vesper_last_error()
                                     << "\nsetting: " << vesper_last_error_setting();
  }

  static std::string formatted(const vesper_transcript* transcript, const std::string& format,
                               const vesper_format_options* options = nullptr) {
    char* text = nullptr;
    EXPECT_EQ(vesper_transcript_format(transcript, format.c_str(), options, &text), VESPER_OK)
        << vesper_last_error();
    const std::string copy = text ? text : "";
    vesper_string_free(text);
    return copy;
  }

  // The transcript of stereo() as JSON; empty after an error.
  static std::string json(vesper_whisper* whisper, const vesper_transcribe_options& options,
                          vesper_status* status = nullptr) {
    vesper_transcript* transcript = nullptr;
    const vesper_status result = vesper_whisper_transcribe_file(whisper, stereo().c_str(), &options,
                                                                nullptr, nullptr, &transcript);
    if (status) *status = result;
    if (result != VESPER_OK) return "";
    const std::string text = formatted(transcript, "json");
    vesper_transcript_free(transcript);
    return text;
  }

  static TemporaryFolder* folder_;
  const ScopedEnvironment no_models_{"VESPER_MODELS", folder_->file("none")};
};
TemporaryFolder* SpeechOfTheCApi::folder_ = nullptr;

TEST_F(SpeechOfTheCApi, EveryFunctionWorksInC) {
  expect_none(check_every_function(model().c_str(), stereo().c_str()));
}

TEST_F(SpeechOfTheCApi, EverySettingHasARange) {
  vesper_whisper* whisper = open();
  expect_none(check_option_ranges(whisper, stereo().c_str()));
  vesper_whisper_close(whisper);
}

TEST_F(SpeechOfTheCApi, EverySettingHasAnEffect) {
  vesper_whisper* whisper = open();
  expect_none(check_option_effects(whisper, stereo().c_str()));
  vesper_whisper_close(whisper);
}

TEST_F(SpeechOfTheCApi, OptionsOfOtherVersionsAreRead) {
  vesper_whisper* whisper = open();
  expect_none(check_option_sizes(whisper, stereo().c_str()));
  vesper_whisper_close(whisper);
}

TEST_F(SpeechOfTheCApi, BadArgumentsAreErrorsThatNameThem) {
  vesper_whisper* whisper = open();
  expect_none(check_bad_arguments(model().c_str(), whisper, stereo().c_str()));
  vesper_whisper_close(whisper);
}

TEST_F(SpeechOfTheCApi, HasTheDefaultsOfTheSession) {
  vesper_transcribe_options options;
  vesper_transcribe_options_init(&options, sizeof options);
  const DecodingSettings decoding;
  EXPECT_STREQ(options.language, "auto");
  EXPECT_EQ(std::vector(options.temperatures, options.temperatures + options.n_temperatures),
            decoding.temperatures);
  EXPECT_EQ(options.beam_size, 5u);
  EXPECT_TRUE(std::isnan(options.length_penalty));
  EXPECT_EQ(options.no_speech_threshold, 0.6);
  EXPECT_EQ(options.max_new_tokens, 0u);
  EXPECT_EQ(options.condition_on_previous_text, 1);
  EXPECT_EQ(options.append_punctuations, decoding.punctuation.appended);
  EXPECT_EQ(options.vad_max_speech_s, INFINITY);
  EXPECT_EQ(options.raw_sample_rate_hz, 16000u);
}

TEST_F(SpeechOfTheCApi, FormatsHaveTheBytesOfTheProgram) {
  vesper_whisper* whisper = open();
  vesper_transcribe_options options;
  vesper_transcribe_options_init(&options, sizeof options);
  const double greedy = 0;
  options.temperatures = &greedy;
  options.n_temperatures = 1;
  options.language = "en";
  options.word_timestamps = 1;
  vesper_transcript* transcript = nullptr;
  ASSERT_EQ(vesper_whisper_transcribe_file(whisper, stereo().c_str(), &options, nullptr, nullptr,
                                           &transcript),
            VESPER_OK);
  const std::string path = stereo(), model_path = model(), out = folder_->file("out");
  const ChildResult program = run_child({TRANSCRIBE,
                                         "-q",
                                         "--device",
                                         "cpu",
                                         "--compute",
                                         "f32",
                                         "--threads",
                                         "1",
                                         "-m",
                                         model_path,
                                         "-l",
                                         "en",
                                         "--temperature",
                                         "0",
                                         "--temperature-increment-on-fallback",
                                         "none",
                                         "--word-timestamps",
                                         "-f",
                                         "all",
                                         "-o",
                                         out,
                                         path},
                                        {});
  ASSERT_EQ(program.status, 0) << program.err;
  vesper_format_options layout;
  vesper_format_options_init(&layout, sizeof layout);
  layout.file = path.c_str();
  layout.model = model_path.c_str();
  for (const std::string format : {"txt", "srt", "vtt", "tsv", "csv", "lrc", "json", "jsonl"}) {
    const std::string text = formatted(transcript, format, &layout);
    EXPECT_FALSE(text.empty());
    EXPECT_EQ(text, bytes_of(out + "/stereo." + format)) << format;
  }
  vesper_transcript_free(transcript);
  vesper_whisper_close(whisper);
}

// ---- Threads. The preset tsan runs these.

class ThreadsOfTheCApi : public SpeechOfTheCApi {};

TEST_F(ThreadsOfTheCApi, EightModelsWorkAtOnce) {
  vesper_transcribe_options options;
  tiny_transcribe_options(&options);
  vesper_whisper* first = open();
  const std::string expected = json(first, options);
  vesper_whisper_close(first);
  std::vector<std::thread> threads;
  std::vector<std::string> texts(8);
  for (std::string& text : texts) {
    threads.emplace_back([&] {
      vesper_whisper* whisper = open();
      text = json(whisper, options);
      vesper_whisper_close(whisper);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(texts, std::vector<std::string>(8, expected));
}

TEST_F(ThreadsOfTheCApi, ASecondCallOfABusyModelIsAnError) {
  vesper_whisper* whisper = open();
  vesper_transcribe_options options;
  tiny_transcribe_options(&options);
  struct Call {
    vesper_whisper* whisper;
    vesper_status status = VESPER_OK;
    std::string message;
  } call{whisper, VESPER_OK, ""};
  const auto use_again = [](const vesper_segment*, void* user) {
    auto& outer = *static_cast<Call*>(user);
    std::thread([&] {
      outer.status = vesper_whisper_load_vad(outer.whisper, nullptr);
      if (outer.status != VESPER_OK) outer.message = vesper_last_error();
    }).join();
    // The call ends before the model is gone.
    vesper_whisper_close(outer.whisper);
    return 0;
  };
  EXPECT_EQ(vesper_whisper_transcribe_file(whisper, stereo().c_str(), &options, use_again, &call,
                                           nullptr),
            VESPER_OK)
      << vesper_last_error();
  EXPECT_EQ(call.status, VESPER_ERROR_USAGE);
  EXPECT_EQ(call.message,
            "vesper_whisper_load_vad: whisper: expected a Whisper model that no other call and no "
            "open stream is using, found one that is in use");
  EXPECT_EQ(vesper_whisper_load_vad(whisper, nullptr), VESPER_ERROR_USAGE);
  EXPECT_STREQ(vesper_error_of(whisper), "");
}

TEST_F(ThreadsOfTheCApi, ATranscriptIsReadByManyThreads) {
  vesper_whisper* whisper = open();
  vesper_transcribe_options options;
  tiny_transcribe_options(&options);
  vesper_transcript* transcript = nullptr;
  ASSERT_EQ(vesper_whisper_transcribe_file(whisper, stereo().c_str(), &options, nullptr, nullptr,
                                           &transcript),
            VESPER_OK);
  const std::string expected = formatted(transcript, "json");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        EXPECT_EQ(formatted(transcript, "json"), expected);
        EXPECT_NE(vesper_transcript_text(transcript)[0], '\0');
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  vesper_transcript_free(transcript);
  vesper_whisper_close(whisper);
}

TEST_F(SpeechOfTheCApi, AnExceptionOfACallbackIsAnError) {
  vesper_whisper* whisper = open();
  vesper_transcribe_options options;
  tiny_transcribe_options(&options);
  const auto throw_int = [](const vesper_segment*, void*) -> int { throw 7; };
  EXPECT_EQ(vesper_whisper_transcribe_file(whisper, stereo().c_str(), &options, throw_int, nullptr,
                                           nullptr),
            VESPER_ERROR_INTERNAL);
  EXPECT_STREQ(vesper_last_error(),
               "vesper_whisper_transcribe_file: an exception of an unknown type");
  EXPECT_NE(json(whisper, options), "");
  vesper_whisper_close(whisper);
}

TEST_F(ThreadsOfTheCApi, AThreadMayEndInACallback) {
  vesper_whisper* whisper = open();
  vesper_transcribe_options options;
  tiny_transcribe_options(&options);
  const std::string expected = json(whisper, options);
  struct Call {
    vesper_whisper* whisper;
    const vesper_transcribe_options* options;
    std::string path;
  } call{whisper, &options, stereo()};
  pthread_t thread{};
  const auto transcribe = [](void* user) -> void* {
    const auto& given = *static_cast<Call*>(user);
    const auto end = [](const vesper_segment*, void*) -> int { pthread_exit(nullptr); };
    vesper_whisper_transcribe_file(given.whisper, given.path.c_str(), given.options, end, nullptr,
                                   nullptr);
    return user;
  };
  ASSERT_EQ(pthread_create(&thread, nullptr, transcribe, &call), 0);
  void* returned = &call;
  ASSERT_EQ(pthread_join(thread, &returned), 0);
  EXPECT_EQ(returned, nullptr);
  EXPECT_EQ(json(whisper, options), expected);
  vesper_whisper_close(whisper);
}

// ---- The library

TEST_F(SpeechOfTheCApi, LogsTheDeviceOfAModel) {
  std::string log;
  vesper_set_log(
      [](vesper_log_level level, const char* message, void* user) {
        EXPECT_EQ(level, VESPER_LOG_INFO);
        *static_cast<std::string*>(user) += message;
      },
      &log);
  vesper_whisper* whisper = open();
  EXPECT_EQ(log, model() + ": " + vesper_whisper_description(whisper));
  vesper_set_log(nullptr, nullptr);
  vesper_whisper_close(whisper);
  vesper_whisper_close(open());
  EXPECT_EQ(log.find("cpu", log.find("cpu") + 1), std::string::npos);
}

TEST_F(SpeechOfTheCApi, StatusesHaveNames) {
  EXPECT_STREQ(vesper_status_name(VESPER_OK), "ok");
  EXPECT_STREQ(vesper_status_name(VESPER_ERROR_USAGE), "usage");
  EXPECT_STREQ(vesper_status_name(VESPER_ERROR_INPUT), "input");
  EXPECT_STREQ(vesper_status_name(VESPER_ERROR_MODEL), "model");
  EXPECT_STREQ(vesper_status_name(VESPER_ERROR_DEVICE), "device");
  EXPECT_STREQ(vesper_status_name(VESPER_ERROR_OUTPUT), "output");
  EXPECT_STREQ(vesper_status_name(VESPER_ERROR_STOPPED), "stopped");
  EXPECT_STREQ(vesper_status_name(VESPER_ERROR_INTERNAL), "internal");
  EXPECT_STREQ(vesper_status_name(static_cast<vesper_status>(99)), "unknown");
}

}  // namespace
}  // namespace vesper::capi_speech_test
