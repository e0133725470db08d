#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vesper.h>

#include <cmath>
#include <vector>

#include "cli/model_lookup.h"
#include "tests/capi/c_client.h"

namespace vesper {
namespace {

constexpr char kRecording[] =
    "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0930.wav";

std::string model_path() {
  ModelLookup lookup;
  lookup.offline = true;
  return find_model("tiny.en", lookup).string();
}

TEST(CApi, ACProgramGetsTheTextOfARecording) {
  char text[1024];
  EXPECT_EQ(c_client_transcribe(model_path().c_str(), kRecording, text, sizeof text), VESPER_OK)
      << vesper_last_error();
  EXPECT_STREQ(text, " He might even have been made amiable himself.");
}

TEST(CApi, AMissingModelIsAStatusAndAMessageThatNamesIt) {
  vesper_whisper* whisper = nullptr;
  EXPECT_EQ(vesper_whisper_open("/no/such/model", nullptr, &whisper), VESPER_ERROR_MODEL);
  EXPECT_EQ(whisper, nullptr);
  EXPECT_THAT(vesper_last_error(), testing::HasSubstr("/no/such/model"));
}

TEST(CApi, ACallbackStopsTheTranscriptionAndTheModelStaysUsable) {
  vesper_whisper* whisper = nullptr;
  const vesper_device_options options{"cpu", nullptr, 0};
  ASSERT_EQ(vesper_whisper_open(model_path().c_str(), &options, &whisper), VESPER_OK);
  const auto stop = [](const vesper_segment*, void* user) {
    ++*static_cast<int*>(user);
    return 1;
  };
  int n_calls = 0;
  EXPECT_EQ(vesper_whisper_transcribe_file(whisper, kRecording, nullptr, stop, &n_calls),
            VESPER_ERROR_STOPPED);
  EXPECT_EQ(vesper_whisper_transcribe_file(whisper, kRecording, nullptr, stop, &n_calls),
            VESPER_ERROR_STOPPED);
  EXPECT_EQ(n_calls, 2);
  vesper_whisper_close(whisper);
}

TEST(CApi, SamplesThatAreNoNumbersAreRefused) {
  vesper_whisper* whisper = nullptr;
  const vesper_device_options options{"cpu", nullptr, 0};
  ASSERT_EQ(vesper_whisper_open(model_path().c_str(), &options, &whisper), VESPER_OK);
  std::vector<float> samples(16000, 0.0f);
  samples[77] = NAN;
  EXPECT_EQ(vesper_whisper_transcribe_pcm(whisper, samples.data(), samples.size(), nullptr, nullptr,
                                          nullptr),
            VESPER_ERROR_INPUT);
  EXPECT_THAT(vesper_last_error(), testing::HasSubstr("77"));
  EXPECT_EQ(vesper_whisper_transcribe_pcm(whisper, nullptr, 0, nullptr, nullptr, nullptr),
            VESPER_OK);
  vesper_whisper_close(whisper);
}

}  // namespace
}  // namespace vesper
