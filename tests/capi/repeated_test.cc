// Objects of the C API that are opened, cancelled and closed a thousand times, mostly for the
// sanitizers: with a tiny Whisper of random weights.
#include <gtest/gtest.h>
#include <vesper.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/audio/made_recordings.h"
#include "tests/capi/speech_client.h"
#include "tests/llm/weights/tiny_whisper_files.h"
#include "tests/temporary_folder.h"

namespace vesper::capi_repeated_test {
namespace {

constexpr int kTimes = 1000;

class CApiRepeated : public testing::Test {
 protected:
  CApiRepeated() {
    test::TinyWhisperOptions tiny;
    tiny.n_audio_ctx = 20;  // a window is 0.4 s
    tiny.n_text_ctx = 32;
    tiny.d_model = 32;
    tiny.n_heads = 1;
    tiny.n_encoder_layers = tiny.n_decoder_layers = 1;
    tiny.d_ffn = 32;
    test::write_files(test::TinyWhisper(tiny).ctranslate2(DType::kF16), folder_.path());
    tiny_whisper_options(&settings_);
    settings_.max_candidates = 1;
    tiny_transcribe_options(&options_);
  }

  vesper_whisper* open() {
    vesper_whisper* whisper = nullptr;
    EXPECT_EQ(vesper_whisper_open(folder_.path().c_str(), &settings_, &whisper), VESPER_OK)
        << vesper_last_error();
    return whisper;
  }

  // The text of a noise of 0.8 s; empty after an error.
  std::string transcribe(vesper_whisper* whisper, vesper_status* status) {
    const vesper_pcm pcm{samples_.data(), samples_.size(), 16000, 1};
    vesper_transcript* transcript = nullptr;
    *status =
        vesper_whisper_transcribe_pcm(whisper, &pcm, &options_, nullptr, nullptr, &transcript);
    const std::string text = transcript ? vesper_transcript_text(transcript) : "";
    vesper_transcript_free(transcript);
    return text;
  }

  TemporaryFolder folder_;
  const std::vector<float> samples_ = noise(0.3f, 12800, 1);
  vesper_whisper_options settings_;
  vesper_transcribe_options options_;
};

TEST_F(CApiRepeated, ModelsAreOpenedAndClosed) {
  for (int i = 0; i < kTimes; ++i) {
    vesper_whisper* whisper = open();
    ASSERT_NE(whisper, nullptr);
    vesper_whisper_close(whisper);
  }
}

TEST_F(CApiRepeated, StreamsTranscriptsAndCancellationsAreOpenedAndClosed) {
  vesper_whisper* whisper = open();
  vesper_stream_options captions;
  vesper_stream_options_init(&captions, sizeof captions);
  captions.step_s = 0.4;
  for (int i = 0; i < kTimes; ++i) {
    vesper_cancellation* cancellation = nullptr;
    ASSERT_EQ(vesper_cancellation_new(&cancellation), VESPER_OK);
    options_.cancellation = cancellation;
    vesper_stream* stream = nullptr;
    ASSERT_EQ(
        vesper_stream_open(whisper, 16000, 1, &options_, i % 2 ? &captions : nullptr, &stream),
        VESPER_OK)
        << vesper_last_error();
    EXPECT_EQ(vesper_stream_push(stream, samples_.data(), 6400), VESPER_OK);
    vesper_transcript* transcript = nullptr;
    if (i % 3) {
      EXPECT_EQ(vesper_stream_finish(stream, &transcript), VESPER_OK) << vesper_last_error();
    }
    vesper_stream_close(stream);
    vesper_transcript_free(transcript);
    vesper_cancellation_free(cancellation);
  }
  vesper_whisper_close(whisper);
}

TEST_F(CApiRepeated, CallsAreCancelledFromAnotherThreadAtAnyTime) {
  vesper_whisper* whisper = open();
  vesper_cancellation* cancellation = nullptr;
  ASSERT_EQ(vesper_cancellation_new(&cancellation), VESPER_OK);
  vesper_status status = VESPER_OK;
  const std::string expected = transcribe(whisper, &status);
  options_.cancellation = cancellation;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(transcribe(whisper, &status), expected);
  const auto took = std::chrono::steady_clock::now() - start;
  int n_stopped = 0;
  for (int i = 0; i < kTimes; ++i) {
    std::thread other([&] {
      std::this_thread::sleep_for(took * i / kTimes);
      vesper_cancellation_request(cancellation);
    });
    const std::string text = transcribe(whisper, &status);
    other.join();
    if (status == VESPER_OK) {
      EXPECT_EQ(text, expected);
    } else {
      EXPECT_EQ(status, VESPER_ERROR_STOPPED) << vesper_last_error();
      ++n_stopped;
    }
    vesper_cancellation_reset(cancellation);
  }
  EXPECT_GT(n_stopped, 0);
  EXPECT_EQ(transcribe(whisper, &status), expected);
  vesper_cancellation_free(cancellation);
  vesper_whisper_close(whisper);
}

}  // namespace
}  // namespace vesper::capi_repeated_test
