// Memory that runs out at the n-th allocation of a call of the C API: the call returns an error
// with a message, no exception leaves it, and the model is as usable as before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vesper.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/audio/made_recordings.h"
#include "tests/faults/failing_calls.h"
#include "tests/llm/weights/tiny_whisper_files.h"
#include "tests/temporary_folder.h"

namespace vesper::capi_allocation_test {
namespace {

using testing::HasSubstr;

class AllocationsOfTheCApi : public testing::Test {
 protected:
  AllocationsOfTheCApi() {
    test::TinyWhisperOptions tiny;
    tiny.n_audio_ctx = 50;  // a window is a second
    tiny.n_text_ctx = 32;
    test::write_files(test::TinyWhisper(tiny).ctranslate2(DType::kF32), model_);
    vesper_whisper_options_init(&device_, sizeof device_);
    device_.load.device = "cpu";
    device_.load.compute = "f32";
    device_.load.threads = 2;
    vesper_transcribe_options_init(&options_, sizeof options_);
    options_.language = "en";
    write_with_sndfile(recording_, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1, 16000, samples_);
  }
  ~AllocationsOfTheCApi() override {
    failing_calls_arm(nullptr);
    vesper_whisper_close(whisper_);
  }

  vesper_status open() {
    vesper_whisper_close(whisper_);
    return vesper_whisper_open(model_.c_str(), &device_, &whisper_);
  }

  // Leaves the text of the recording in text_. Allocates nothing itself.
  vesper_status transcribe(bool from_file) {
    const auto add = [](const vesper_segment* segment, void* user) {
      // The caller's own memory is not what is tested.
      auto& text = *static_cast<Text*>(user);
      text.size += static_cast<size_t>(std::snprintf(
          text.bytes + text.size, sizeof text.bytes - text.size, "%s|", segment->text));
      return text.size >= sizeof text.bytes ? 1 : 0;
    };
    text_ = {};
    const vesper_pcm pcm = this->pcm();
    return from_file
               ? vesper_whisper_transcribe_file(whisper_, recording_.c_str(), &options_, add,
                                                &text_, nullptr)
               : vesper_whisper_transcribe_pcm(whisper_, &pcm, &options_, add, &text_, nullptr);
  }

  vesper_pcm pcm() const { return {samples_.data(), samples_.size(), 16000, 1}; }

  // Leaves a result in text_ and frees it.
  vesper_status keep(char* result, vesper_status status) {
    text_ = {};
    if (result) std::strncpy(text_.bytes, result, sizeof text_.bytes - 1);
    vesper_string_free(result);
    return status;
  }

  // Makes `call` fail at each of a sample of its allocations: the first ones, and `n_sampled`
  // others. It leaves the same text where it succeeds. `rests`: "" fails one allocation, "+" all
  // later ones, too.
  void fail_each(size_t n_sampled, const std::vector<std::string>& rests,
                 const std::function<vesper_status()>& call) {
    failing_calls_arm("allocate:1000000000");
    const vesper_status unharmed = call();
    const long n = failing_calls_count();
    failing_calls_arm(nullptr);
    ASSERT_EQ(unharmed, VESPER_OK) << vesper_last_error();
    const std::string text = text_.bytes;
    const long step = std::max(1L, n / static_cast<long>(n_sampled));
    size_t n_errors = 0;
    for (long i = 1; i <= n; i += i < 20 ? 1 : step) {
      for (const std::string& rest : rests) {
        failing_calls_arm(("allocate:" + std::to_string(i) + rest).c_str());
        const vesper_status status = call();
        failing_calls_arm(nullptr);
        SCOPED_TRACE("allocation " + std::to_string(i) + rest);
        if (status == VESPER_OK) {
          EXPECT_EQ(text_.bytes, text);
          continue;
        }
        ++n_errors;
        EXPECT_EQ(status, VESPER_ERROR_DEVICE) << vesper_last_error();
        EXPECT_THAT(vesper_last_error(), HasSubstr("memory"));
      }
    }
    EXPECT_GT(n_errors, 20u);
    EXPECT_EQ(call(), VESPER_OK);
    EXPECT_EQ(text_.bytes, text);
  }

  struct Text {
    char bytes[4096] = "";
    size_t size = 0;
    vesper_status status = VESPER_OK;
  };
  TemporaryFolder folder_;
  const std::string model_ = folder_.file("model"), recording_ = folder_.file("a.wav");
  const std::vector<float> samples_ = noise(0.3f, 16000, 1);
  const ScopedEnvironment no_vad_{"VESPER_MODELS", folder_.file("none")};
  vesper_whisper_options device_;
  vesper_transcribe_options options_;
  vesper_whisper* whisper_ = nullptr;
  Text text_;
};

TEST_F(AllocationsOfTheCApi, MayFailWhileAModelIsOpened) {
  // Without any memory the destructors of nlohmann's JSON, which allocate, would end the process.
  fail_each(150, {""}, [&] { return open(); });
  EXPECT_EQ(transcribe(false), VESPER_OK);
}

TEST_F(AllocationsOfTheCApi, MayFailWhileSamplesAreTranscribed) {
  ASSERT_EQ(open(), VESPER_OK);
  fail_each(40, {"", "+"}, [&] { return transcribe(false); });
}

TEST_F(AllocationsOfTheCApi, MayFailWhileAFileIsTranscribed) {
  ASSERT_EQ(open(), VESPER_OK);
  fail_each(40, {"", "+"}, [&] { return transcribe(true); });
}

TEST_F(AllocationsOfTheCApi, MayFailWhileATranscriptIsFormatted) {
  ASSERT_EQ(open(), VESPER_OK);
  const vesper_pcm pcm = this->pcm();
  fail_each(40, {""}, [&] {
    vesper_transcript* transcript = nullptr;
    vesper_status status =
        vesper_whisper_transcribe_pcm(whisper_, &pcm, &options_, nullptr, nullptr, &transcript);
    // Not JSON, for the reason above.
    char* text = nullptr;
    if (status == VESPER_OK) {
      status = vesper_transcript_format(transcript, "srt", nullptr, &text);
    }
    vesper_transcript_free(transcript);
    return keep(text, status);
  });
}

TEST_F(AllocationsOfTheCApi, MayFailWhileLanguagesAreDetected) {
  ASSERT_EQ(open(), VESPER_OK);
  const vesper_pcm pcm = this->pcm();
  options_.language = nullptr;
  fail_each(40, {"", "+"}, [&] {
    char* json = nullptr;
    const vesper_status status =
        vesper_whisper_detect_languages_pcm(whisper_, &pcm, &options_, &json);
    return keep(json, status);
  });
}

TEST_F(AllocationsOfTheCApi, MayFailWhileAStreamIsFed) {
  ASSERT_EQ(open(), VESPER_OK);
  vesper_stream_options captions;
  vesper_stream_options_init(&captions, sizeof captions);
  captions.step_s = 0.4;
  fail_each(40, {"", "+"}, [&] {
    vesper_stream* stream = nullptr;
    vesper_transcript* transcript = nullptr;
    vesper_status status = vesper_stream_open(whisper_, 16000, 1, &options_, &captions, &stream);
    if (status == VESPER_OK) status = vesper_stream_push(stream, samples_.data(), samples_.size());
    if (status == VESPER_OK) status = vesper_stream_finish(stream, &transcript);
    vesper_stream_close(stream);
    text_ = {};
    if (transcript) {
      std::strncpy(text_.bytes, vesper_transcript_text(transcript), sizeof text_.bytes - 1);
    }
    vesper_transcript_free(transcript);
    return status;
  });
}

TEST_F(AllocationsOfTheCApi, MayFailWhileFilesAreTranscribed) {
  ASSERT_EQ(open(), VESPER_OK);
  const char* const paths[] = {recording_.c_str(), recording_.c_str()};
  const auto take = [](size_t, vesper_transcript* transcript, vesper_status status, const char*,
                       void* user) {
    auto& text = *static_cast<Text*>(user);
    if (status == VESPER_OK) {
      std::strncat(text.bytes, vesper_transcript_text(transcript), 1000);
      vesper_transcript_free(transcript);
    } else {
      text.status = status;
    }
    return 0;
  };
  fail_each(40, {""}, [&] {
    text_ = {};
    const vesper_status status =
        vesper_whisper_transcribe_files(whisper_, paths, 2, &options_, take, &text_);
    return status == VESPER_OK ? text_.status : status;
  });
}

TEST_F(AllocationsOfTheCApi, MayFailForAMessage) {
  const std::string long_name(200, 'x');
  failing_calls_arm("allocate:1+");
  EXPECT_EQ(vesper_whisper_open(long_name.c_str(), &device_, &whisper_), VESPER_ERROR_DEVICE);
  failing_calls_arm(nullptr);
  EXPECT_STREQ(vesper_last_error(), "out of memory");
  EXPECT_EQ(vesper_whisper_transcribe_pcm(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
            VESPER_ERROR_USAGE);
}

}  // namespace
}  // namespace vesper::capi_allocation_test
