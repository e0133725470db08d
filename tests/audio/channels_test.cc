#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "audio/channel_levels.h"
#include "audio/sources/input.h"
#include "audio/sources/reader.h"
#include "error/error.h"
#include "tests/audio/made_recordings.h"

namespace vesper::channels_test {
namespace {

using testing::HasSubstr;

std::vector<float> samples_of(AudioReader reader) {
  std::vector<float> samples(100000);
  samples.resize(reader.read(samples.data(), samples.size()));
  return samples;
}

// Frame i of channel c is (100 i + c) / 32768.
std::string counting_wav(int channels, int n_frames) {
  std::vector<int16_t> interleaved;
  for (int i = 0; i < n_frames; ++i) {
    for (int c = 0; c < channels; ++c) interleaved.push_back(static_cast<int16_t>(100 * i + c));
  }
  return wav_bytes(interleaved, channels, 16000);
}

TEST(Channels, OneCanBeSelected) {
  const std::string bytes = counting_wav(3, 200);
  const std::span<const uint8_t> memory(reinterpret_cast<const uint8_t*>(bytes.data()),
                                        bytes.size());
  for (int channel : {0, 1, 2}) {
    ReaderOptions options;
    options.channel = channel;
    const std::vector<float> samples = samples_of(AudioReader::from_memory(memory, "it", options));
    ASSERT_EQ(samples.size(), 200u);
    EXPECT_FLOAT_EQ(samples[0], static_cast<float>(channel) / 32768);
    EXPECT_FLOAT_EQ(samples[199], static_cast<float>(19900 + channel) / 32768);
  }
  EXPECT_FLOAT_EQ(samples_of(AudioReader::from_memory(memory, "it")).at(7), 701.0f / 32768);
  ReaderOptions fourth;
  fourth.channel = 3;
  try {
    AudioReader::from_memory(memory, "it", fourth);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), HasSubstr("it has 3 channels, expected channel 4"));
  }
}

TEST(Channels, AllAreReadInterleaved) {
  const std::string bytes = counting_wav(2, 300);
  AudioReader reader = AudioReader::from_memory(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "it");
  std::vector<float> frames(2 * 400);
  ASSERT_EQ(reader.read_interleaved(frames.data(), 10), 10u);
  EXPECT_FLOAT_EQ(frames[1], 1.0f / 32768);
  EXPECT_FLOAT_EQ(frames[19], 901.0f / 32768);
  ASSERT_EQ(reader.read_interleaved(frames.data(), 400), 290u);
  EXPECT_FLOAT_EQ(frames[0], 1000.0f / 32768);
  EXPECT_FLOAT_EQ(frames[2 * 289 + 1], 29901.0f / 32768);
}

TEST(RawPcm, IsReadInTheGivenFormat) {
  const TemporaryFolder folder;
  const std::string path = folder.file("samples");
  ReaderOptions options;
  options.raw = RawPcm{RawPcm::Encoding::kS16Le, 8000, 2};
  write_bytes(path, std::string("\x00\x40\x00\x00\x00\xc0\x00\x00\x01", 9));  // half a frame more
  AudioReader reader(path, options);
  EXPECT_EQ(reader.sample_rate_hz(), 8000);
  EXPECT_EQ(reader.channels(), 2);
  EXPECT_EQ(reader.frames_if_known(), 2u);
  EXPECT_EQ(samples_of(std::move(reader)), (std::vector<float>{0.25f, -0.25f}));

  options.raw = RawPcm{RawPcm::Encoding::kF32Le, 16000, 1};
  std::string floats;
  for (float value : {0.5f, -1.0f, 0.125f}) {
    for (int byte = 0; byte < 4; ++byte) {
      floats += static_cast<char>(std::bit_cast<uint32_t>(value) >> (8 * byte));
    }
  }
  PipeOf pipe(floats, 3);
  AudioReader piped = AudioReader::from_stream(pipe.fd(), "pipe", options);
  EXPECT_FALSE(piped.frames_if_known());
  EXPECT_EQ(samples_of(std::move(piped)), (std::vector<float>{0.5f, -1.0f, 0.125f}));
  // A WAV header read as raw samples is noise; a NaN is an error.
  write_bytes(path, std::string(16, '\xff'));
  EXPECT_THROW(samples_of(AudioReader(path, options)), Error);
}

TEST(RewindableInput, IsReadFromItsBeginningEachTime) {
  const TemporaryFolder folder;
  const std::string path = folder.file("it.wav");
  write_bytes(path, counting_wav(2, 500));
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(std::system(("mkfifo " + pipe + "; cat " + path + " > " + pipe + " &").c_str()), 0);
  for (const std::string& name : {path, pipe}) {
    const RewindableInput input(AudioInput{.path = name});
    EXPECT_EQ(input.open().channels(), 2);
    for (int channel : {0, 1}) {
      const std::vector<float> samples = samples_of(input.open(channel));
      ASSERT_EQ(samples.size(), 500u);
      EXPECT_FLOAT_EQ(samples[0], static_cast<float>(channel) / 32768);
    }
  }
}

// One second each: left, right, both, neither.
TEST(ChannelLevels, FindTheLouderChannel) {
  const TemporaryFolder folder;
  const std::vector<float> sound = noise(0.5f, 8000, 1);
  std::vector<float> interleaved;
  for (int second = 0; second < 4; ++second) {
    for (float x : sound) {
      interleaved.push_back(second == 0 ? x : second == 2 ? 0.98f * x : 0.1f * x);
      interleaved.push_back(second == 1 || second == 2 ? x : second == 0 ? 0.1f * x : 0.1f * x);
    }
  }
  const std::string path = folder.file("it.wav");
  write_with_sndfile(path, SF_FORMAT_WAV | SF_FORMAT_FLOAT, 2, 8000, interleaved);
  const ChannelLevels levels((AudioReader(path)));
  EXPECT_EQ(levels.louder(0.1, 0.9), 0);
  EXPECT_EQ(levels.louder(1.1, 1.9), 1);
  EXPECT_EQ(levels.louder(0.98, 1), 0) << "to the hundredth of a second";
  EXPECT_EQ(levels.louder(1, 1.02), 1);
  EXPECT_EQ(levels.louder(2.1, 2.9), std::nullopt);
  EXPECT_EQ(levels.louder(3.1, 3.9), std::nullopt);
  EXPECT_EQ(levels.louder(-5, 0.5), 0);
  EXPECT_EQ(levels.louder(100, 200), std::nullopt);
  EXPECT_EQ(levels.louder(0.9, 0.1), std::nullopt) << "a span that runs backwards is no span";
  EXPECT_EQ(levels.louder(NAN, NAN), std::nullopt);

  write_bytes(path, counting_wav(1, 100));
  EXPECT_THROW(ChannelLevels((AudioReader(path))), Error);
}

TEST(RecordingExtensions, AreThoseOfAudioAndVideo) {
  for (const char* name : {"a.wav", "A.FLAC", "x.y.Mp3", "talk.m4a", "film.mkv", "b.opus"}) {
    EXPECT_TRUE(has_audio_extension(name)) << name;
  }
  for (const char* name : {"a.txt", "wav", ".wav", "a.wav.part", "a.", "", "a.raw", "a.srt"}) {
    EXPECT_FALSE(has_audio_extension(name)) << name;
  }
}

}  // namespace
}  // namespace vesper::channels_test
