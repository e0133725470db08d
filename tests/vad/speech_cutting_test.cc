#include "vad/speech_cutting.h"

#include <gtest/gtest.h>

namespace vesper::speech_cutting_test {
namespace {

constexpr size_t kChunksPerMinute = 60 * 16000 / 512;

// Speech except for silences of `n` chunks from chunk `at` on.
struct Pause {
  size_t at, n;
};
std::vector<float> probabilities(size_t n_minutes, const std::vector<Pause>& pauses) {
  std::vector<float> all(n_minutes * kChunksPerMinute, 0.9f);
  for (const Pause& pause : pauses)
    std::fill_n(all.begin() + static_cast<std::ptrdiff_t>(pause.at), pause.n, 0.1f);
  return all;
}

// The first frame of a chunk of 32 ms.
double frame_of(size_t chunk) { return static_cast<double>(chunk) * 3.2; }

TEST(SpeechCutting, AreCutInTheLongestSilences) {
  // The longest pause before 30 s, not the last one.
  const std::vector<SpeechSegment> segments =
      cut_at_silences(probabilities(1, {{600, 10}, {700, 40}, {900, 10}}),
                      std::vector<SpeechSegment>{{0, 5000}}, 3000);
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].begin, 0u);
  EXPECT_NEAR(static_cast<double>(segments[0].end), frame_of(720), 2);
  EXPECT_NEAR(static_cast<double>(segments[0].speech_end), frame_of(700), 2);
  EXPECT_EQ(segments[1].begin, segments[0].end);
  EXPECT_EQ(segments[1].end, 5000u);
  EXPECT_EQ(segments[1].speech_end, 5000u);
}

TEST(SpeechCutting, AreAsFewAsPossible) {
  // A long pause every 10 s.
  std::vector<Pause> pauses;
  for (size_t at = 312; at < 4 * kChunksPerMinute - 70; at += 312) pauses.push_back({at, 70});
  const std::vector<SpeechSegment> segments =
      cut_at_silences(probabilities(4, pauses), std::vector<SpeechSegment>{{0, 24000}}, 3000);
  EXPECT_EQ(segments.size(), 9u);
  // If speech hardly pauses, one more segment is better than a cut between two words.
  const size_t half = kChunksPerMinute / 2;
  EXPECT_EQ(cut_at_silences(probabilities(1, {{half / 2, 70}, {half - 10, 2}, {half + 200, 70}}),
                            std::vector<SpeechSegment>{{0, 5600}}, 3000)
                .size(),
            3u);
}

TEST(SpeechCutting, AreFramesOfTheExtractedSpeech) {
  // The silence at 3 minutes of the recording is at 20 s of the kept audio.
  const size_t three_minutes = 3 * kChunksPerMinute;
  const std::vector<SpeechSegment> segments =
      cut_at_silences(probabilities(5, {{three_minutes, 30}}),
                      std::vector<SpeechSegment>{{0, 1000}, {17000, 20000}}, 3000);
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_NEAR(static_cast<double>(segments[0].end), 2000 + frame_of(15), 3);
  EXPECT_EQ(segments[1].end, 4000u);
}

TEST(SpeechCutting, AreCutAtTheLowestProbabilityWithoutASilence) {
  std::vector<float> all = probabilities(2, {});
  all[600] = 0.5f;
  const std::vector<SpeechSegment> segments =
      cut_at_silences(all, std::vector<SpeechSegment>{{0, 9500}}, 3000);
  ASSERT_EQ(segments.size(), 4u);
  EXPECT_NEAR(static_cast<double>(segments[0].end), frame_of(600), 3);
  for (const SpeechSegment& segment : segments) {
    EXPECT_LE(segment.end - segment.begin, 3000u);
    EXPECT_EQ(segment.speech_end, segment.end);
  }
  EXPECT_EQ(segments.back().end, 9500u);
  EXPECT_EQ(
      cut_at_silences(probabilities(1, {}), std::vector<SpeechSegment>{{0, 100}}, 3000).size(), 1u);
  EXPECT_TRUE(cut_at_silences(probabilities(1, {}), {}, 3000).empty());
}

}  // namespace
}  // namespace vesper::speech_cutting_test
