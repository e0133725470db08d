#include "session/speech/channels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error/error.h"
#include "tests/audio/made_recordings.h"

namespace vesper::channels_test {
namespace {

using testing::ElementsAre;

// "Hears" a segment of 0.5 s in every second of the recording that is loud in its middle, in the
// language "3" if there are three.
Transcript hear(SampleReader reader, const OnSegment& on_segment, const OnProgress& on_progress) {
  Transcript transcript;
  const std::vector<float> samples = read_samples(std::move(reader));
  const int n_seconds = static_cast<int>(samples.size()) / kSampleRateHz;
  for (int at = 0; at < n_seconds; ++at) {
    transcript.duration_s = at + 1;
    on_progress(at, 4);
    if (samples[static_cast<size_t>(at * kSampleRateHz + kSampleRateHz / 2)] < 0.3f) continue;
    Segment segment;
    segment.id = static_cast<int>(transcript.segments.size());
    segment.start_s = at;
    segment.end_s = at + 0.5;
    segment.text = " second " + std::to_string(at);
    segment.words = {{at + 0.0, at + 0.5, " word", 1, 1, ""}};
    transcript.segments.push_back(segment);
    on_segment(segment);
  }
  transcript.language = std::to_string(transcript.segments.size());
  return transcript;
}

// [channel][second]: whether it is loud.
std::string recording(const TemporaryFolder& folder, const std::vector<std::vector<bool>>& loud) {
  constexpr int kRate = 8000;
  std::vector<float> interleaved;
  for (size_t second = 0; second < loud[0].size(); ++second) {
    for (int i = 0; i < kRate; ++i) {
      for (const auto& channel : loud) interleaved.push_back(channel[second] ? 0.5f : 0.001f);
    }
  }
  const std::string path = folder.file("it.wav");
  write_with_sndfile(path, SF_FORMAT_WAV | SF_FORMAT_FLOAT, static_cast<int>(loud.size()), kRate,
                     interleaved);
  return path;
}

struct Heard {
  Transcript transcript;
  std::vector<std::string> told;  // segments passed to on_segment, in order
  std::vector<double> progress;
};

Heard transcribed(const AudioInput& input, Channels channels = Channels::kMix) {
  Heard heard;
  heard.transcript = transcribe_channels(
      input, channels, hear,
      [&](const Segment& segment) {
        heard.told.push_back(std::to_string(segment.id) + " " + std::to_string(segment.channel) +
                             segment.speaker + segment.text);
      },
      [&](double done_s, double) { heard.progress.push_back(done_s); });
  EXPECT_EQ(heard.told.size(), heard.transcript.segments.size());
  return heard;
}

TEST(SplitChannels, AreOrderedByStartAndLabelled) {
  const TemporaryFolder folder;
  AudioInput input;
  input.path = recording(folder, {{true, false, true, true}, {false, true, true, false}});
  EXPECT_THAT(transcribed(input).told, ElementsAre("0 0 second 2")) << "the mean of both";
  const Heard heard = transcribed(input, Channels::kSplit);
  EXPECT_THAT(heard.told, ElementsAre("0 1left second 0", "1 2right second 1", "2 1left second 2",
                                      "3 2right second 2", "4 1left second 3"));
  EXPECT_EQ(heard.transcript.segments[1].channel, 2);
  EXPECT_EQ(heard.transcript.segments[4].id, 4);
  EXPECT_EQ(heard.transcript.duration_s, 4);
  EXPECT_EQ(heard.transcript.language, "3") << "of the channel with more text";
  EXPECT_THAT(heard.progress, ElementsAre(0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5));
}

TEST(SplitChannels, AreNumberedUnlessThereAreTwo) {
  const TemporaryFolder folder;
  AudioInput input;
  input.path = recording(folder, {{false}, {true}, {true}});
  EXPECT_THAT(transcribed(input, Channels::kSplit).told,
              ElementsAre("0 2 second 0", "1 3 second 0"));
  input.path = recording(folder, {{true}});
  EXPECT_THAT(transcribed(input, Channels::kSplit).told, ElementsAre("0 1 second 0"));
}

TEST(SplitChannels, AreLimitedInNumber) {
  const TemporaryFolder folder;
  AudioInput input;
  input.path = recording(folder, std::vector<std::vector<bool>>(33, {true}));
  EXPECT_THROW(transcribed(input, Channels::kSplit), Error);
}

TEST(OneChannel, IsTranscribedAlone) {
  const TemporaryFolder folder;
  AudioInput input;
  input.path = recording(folder, {{true, false}, {false, true}});
  input.reader.channel = 1;
  EXPECT_THAT(transcribed(input).told, ElementsAre("0 0 second 1"));
}

TEST(Speakers, AreFoundByTheLouderChannel) {
  const TemporaryFolder folder;
  AudioInput input;
  // The mixture of 0.5 and 0.001 would be too quiet for hear(), so channel 1 is loud only where
  // channel 0 is; levels tell them apart.
  constexpr int kRate = 8000;
  std::vector<float> interleaved;
  for (const auto& [left, right] :
       {std::pair{0.9f, 0.1f}, std::pair{0.1f, 0.9f}, std::pair{0.5f, 0.5f}}) {
    for (int i = 0; i < kRate; ++i) {
      interleaved.push_back(left);
      interleaved.push_back(right);
    }
  }
  input.path = folder.file("it.wav");
  write_with_sndfile(input.path, SF_FORMAT_WAV | SF_FORMAT_FLOAT, 2, kRate, interleaved);
  const Heard heard = transcribed(input, Channels::kDiarize);
  EXPECT_THAT(heard.told, ElementsAre("0 00 second 0", "1 01 second 1", "2 0? second 2"));
  EXPECT_EQ(heard.transcript.segments[1].speaker, "1");
  EXPECT_EQ(heard.transcript.segments[1].words[0].speaker, "1");
  input.path = recording(folder, {{true}});
  EXPECT_THROW(transcribed(input, Channels::kDiarize), Error);
}

}  // namespace
}  // namespace vesper::channels_test
