// The rules are those of silero-vad 6.2.3; the expected segments were computed by hand.
#include "vad/speech_segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "error/error.h"

namespace vesper::speech_segments_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// One letter per chunk of 512 samples: S speech (0.9), m between the thresholds (0.4), . silence.
std::vector<float> chunks(const std::string& letters) {
  std::vector<float> probabilities;
  for (const char letter : letters) {
    probabilities.push_back(letter == 'S' ? 0.9f : letter == 'm' ? 0.4f : 0.1f);
  }
  return probabilities;
}

// No padding and no minimum durations, unless a test needs them.
SpeechSettings bare() {
  SpeechSettings settings;
  settings.min_speech_duration_ms = 0;
  settings.min_silence_duration_ms = 0;
  settings.speech_pad_ms = 0;
  return settings;
}

constexpr uint64_t kChunk = 512;

std::vector<SampleRange> find(const std::string& letters, const SpeechSettings& settings) {
  return find_speech(chunks(letters), letters.size() * kChunk, settings);
}

SampleRange chunk_range(uint64_t first_chunk, uint64_t end_chunk) {
  return {first_chunk * kChunk, end_chunk * kChunk};
}

TEST(FindSpeech, FindsNothingInSilence) {
  EXPECT_THAT(find("", bare()), IsEmpty());
  EXPECT_THAT(find("...mmm...", bare()), IsEmpty());
}

TEST(FindSpeech, BeginsAtTheThresholdAndEndsBelowTheNegativeOne) {
  EXPECT_THAT(find(".mSSm.S", bare()), ElementsAre(chunk_range(2, 5), chunk_range(6, 7)));
  SpeechSettings settings = bare();
  settings.neg_threshold = 0.5;
  EXPECT_THAT(find(".mSSm.S", settings), ElementsAre(chunk_range(2, 4), chunk_range(6, 7)));
  settings = bare();
  settings.threshold = 0.4;
  EXPECT_THAT(find(".mSSm.S", settings), ElementsAre(chunk_range(1, 5), chunk_range(6, 7)));
  settings.threshold = 0.95;
  EXPECT_THAT(find(".mSSm.S", settings), IsEmpty());
}

TEST(FindSpeech, ContinuesOverShortSilences) {
  SpeechSettings settings = bare();
  settings.min_silence_duration_ms = 64;  // 2 chunks, seen at the third
  EXPECT_THAT(find("SS..SS...SS", settings), ElementsAre(chunk_range(0, 6), chunk_range(9, 11)));
  settings.min_silence_duration_ms = 65;
  EXPECT_THAT(find("SS..SS...SS", settings), ElementsAre(chunk_range(0, 11)));
}

TEST(FindSpeech, DropsShortSegments) {
  SpeechSettings settings = bare();
  settings.min_speech_duration_ms = 64;  // more than 2 chunks
  EXPECT_THAT(find("SS.SSS.SS", settings), ElementsAre(chunk_range(3, 6)));
}

TEST(FindSpeech, PadsBothSidesWithinTheRecording) {
  SpeechSettings settings = bare();
  settings.speech_pad_ms = 48;  // 768 samples
  EXPECT_THAT(find("SS......SS...", settings),
              ElementsAre(SampleRange{0, 2 * kChunk + 768},
                          SampleRange{8 * kChunk - 768, 10 * kChunk + 768}));
}

TEST(FindSpeech, SharesSmallGaps) {
  SpeechSettings settings = bare();
  settings.speech_pad_ms = 48;
  EXPECT_THAT(find("..SS.SS..", settings),
              ElementsAre(SampleRange{2 * kChunk - 768, 4 * kChunk + 256},
                          SampleRange{5 * kChunk - 256, 7 * kChunk + 768}));
}

TEST(FindSpeech, CutsALongSegmentAtItsLongestSilence) {
  SpeechSettings settings = bare();
  settings.min_silence_duration_ms = 1000;
  // 24 chunks, one of which is kept: the 24th after the beginning is too late.
  settings.max_speech_duration_s = 24 * 0.032;
  EXPECT_THAT(find("SSSS....SSS.....SSSSSSSSSSSSSS", settings),
              ElementsAre(chunk_range(0, 11), chunk_range(16, 30)));
  // A silence of up to 98 ms does not count.
  EXPECT_THAT(find("SSSS...SSSSSSSSSSSSSSSSSSSSSSS", settings),
              ElementsAre(chunk_range(0, 24), chunk_range(25, 30)));
}

TEST(FindSpeech, CutsTheRestOfALongSegmentAtItsOwnSilences) {
  SpeechSettings settings = bare();
  settings.min_silence_duration_ms = 1000;
  settings.max_speech_duration_s = 24 * 0.032;
  // The first cut is at the longer silence, the second one at the shorter silence after it.
  EXPECT_THAT(find("SSSS....SSS.....SSSSSSSS....SSSSSSSSSSSSSSSSSSSS", settings),
              ElementsAre(chunk_range(0, 11), chunk_range(16, 24), chunk_range(28, 48)));
}

TEST(FindSpeech, EndsWithTheRecording) {
  EXPECT_THAT(find_speech(chunks("..SS"), 3 * kChunk + 100, bare()),
              ElementsAre(SampleRange{2 * kChunk, 3 * kChunk + 100}));
}

TEST(FindSpeech, RefusesInvalidSettings) {
  SpeechSettings settings;
  settings.threshold = 0;
  EXPECT_THROW(find("S", settings), Error);
  settings = {};
  settings.speech_pad_ms = -1;
  EXPECT_THROW(find("S", settings), Error);
  settings = {};
  settings.max_speech_duration_s = 0;
  EXPECT_THROW(find("S", settings), Error);
}

TEST(FindSpeech, RefusesNaNAndNegativeNumbers) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double wrong : {nan, -1.0}) {
    for (double SpeechSettings::*field :
         {&SpeechSettings::threshold, &SpeechSettings::min_speech_duration_ms,
          &SpeechSettings::min_silence_duration_ms, &SpeechSettings::speech_pad_ms,
          &SpeechSettings::max_speech_duration_s}) {
      SpeechSettings settings;
      settings.*field = wrong;
      EXPECT_THROW(find("SSS", settings), Error) << wrong;
    }
    SpeechSettings settings;
    settings.neg_threshold = wrong;
    EXPECT_THROW(find("SSS", settings), Error) << wrong;
  }
}

TEST(FindSpeech, EndsWithAnyValidSettings) {
  const std::string talk = "..SS..SSSSS.SS......SSSSSSSSSSSSS...mmmSS";
  const double huge = 1e300, infinite = std::numeric_limits<double>::infinity();
  for (const double silence_ms : {0.0, 1.0, 500.0, huge, infinite}) {
    for (const double speech_ms : {0.0, 250.0, huge}) {
      for (const double pad_ms : {0.0, 30.0, huge}) {
        for (const double most_s : {1e-9, 0.1, huge}) {
          SpeechSettings settings;
          settings.min_silence_duration_ms = silence_ms;
          settings.min_speech_duration_ms = speech_ms;
          settings.speech_pad_ms = pad_ms;
          settings.max_speech_duration_s = most_s;
          uint64_t end = 0;
          for (const SampleRange& range : find(talk, settings)) {
            EXPECT_GE(range.begin, end);
            EXPECT_GT(range.end, range.begin);
            EXPECT_LE(range.end, talk.size() * kChunk);
            end = range.end;
          }
        }
      }
    }
  }
}

TEST(FramesOf, IncludesPartialFramesAndJoinsNeighbours) {
  const std::vector<SampleRange> spans = {{0, 160}, {330, 479}, {480, 800}, {1600, 9999}};
  EXPECT_THAT(frames_of(spans, 20),
              ElementsAre(SpeechSegment{0, 1}, SpeechSegment{2, 5}, SpeechSegment{10, 20}));
}

TEST(WithinClips, CutsSegmentsAtTheClips) {
  const std::vector<SpeechSegment> segments{{100, 300}, {400, 500}, {900, 1000}};
  const auto within = [&](std::vector<double> clips_s) {
    return within_clips(segments, clips_s, 1000);
  };
  EXPECT_EQ(within({}), segments);
  EXPECT_THAT(
      within({0.5, 2, 2.5, 4.5}),
      ElementsAre(SpeechSegment{100, 200}, SpeechSegment{250, 300}, SpeechSegment{400, 450}));
  EXPECT_THAT(within({4.2}), ElementsAre(SpeechSegment{420, 500}, SpeechSegment{900, 1000}));
  EXPECT_THAT(within({3, 4, 99}), IsEmpty());
}

TEST(SpeechTimeline, MapsTimesOfTheSpeechToTimesOfTheRecording) {
  const SpeechTimeline timeline({{100, 300}, {1000, 1100}});  // 1 to 3 s, 10 to 11 s
  EXPECT_DOUBLE_EQ(timeline.start_s(0), 1);
  EXPECT_DOUBLE_EQ(timeline.start_s(1.5), 2.5);
  EXPECT_DOUBLE_EQ(timeline.end_s(2), 3);
  EXPECT_DOUBLE_EQ(timeline.start_s(2), 10);
  EXPECT_DOUBLE_EQ(timeline.end_s(2.25), 10.25);
  EXPECT_DOUBLE_EQ(timeline.end_s(99), 11);
  EXPECT_DOUBLE_EQ(SpeechTimeline({}).start_s(5), 0);
}

TEST(SpeechTimeline, LeavesOutTheSilenceThatATextReachesInto) {
  const SpeechTimeline timeline({{100, 300}, {1000, 1100}});  // 1 to 3 s, 10 to 11 s
  const auto times = [](double from_s, double to_s) {
    return testing::Pair(testing::DoubleNear(from_s, 1e-9), testing::DoubleNear(to_s, 1e-9));
  };
  EXPECT_THAT(timeline.of_text(0.5, 2.6, 0.3), times(1.5, 10.6)) << "covers both";
  EXPECT_THAT(timeline.of_text(1.8, 2.6, 0.3), times(10, 10.6)) << "begins with the second";
  EXPECT_THAT(timeline.of_text(0.5, 2.2, 0.3), times(1.5, 3)) << "ends with the first";
  EXPECT_THAT(timeline.of_text(1.8, 2, 0.3), times(2.8, 3)) << "within the first";
  EXPECT_THAT(timeline.of_text(1.8, 2.6, 0), times(2.8, 10.6)) << "no silence was kept";
}

TEST(SpeechTimeline, MovesAWordAfterItsLeadingSilence) {
  const SpeechTimeline timeline({{100, 300}, {1000, 1100}});  // 1 to 3 s, 10 to 11 s
  const auto within = [&](double from_s, double to_s, double pad_s) {
    return timeline.within_one(from_s, to_s, pad_s);
  };
  const auto times = [](double from_s, double to_s) {
    return testing::Pair(testing::DoubleNear(from_s, 1e-9), testing::DoubleNear(to_s, 1e-9));
  };
  EXPECT_THAT(within(0.5, 1, 0.3), times(1.5, 2));
  EXPECT_THAT(within(1.5, 2.5, 0.3), times(10, 10.5));
  // It ends before the next speech begins.
  EXPECT_THAT(within(1.5, 2.3, 0.3), times(2.5, 3));
  EXPECT_THAT(within(1.5, 2.3, 0.1), times(10, 10.3));
  // Within padding only.
  EXPECT_THAT(within(1.9, 2.05, 0.3), times(2.9, 3));
  EXPECT_THAT(within(1.95, 2.1, 0.3), times(10, 10.1));
  EXPECT_THAT(within(2, 2, 0), times(10, 10));
}

}  // namespace
}  // namespace vesper::speech_segments_test
