// The rules of openai-whisper (transcribe.py, hallucination_silence_threshold).
#include "decoder/windows/attempts/hallucinations.h"

#include <gtest/gtest.h>

namespace vesper::hallucinations_test {
namespace {

// Successive words of 0.3 s.
Segment said(double start_s, int n_words, double probability) {
  Segment segment;
  segment.start_s = segment.end_s = start_s;
  for (int i = 0; i < n_words; ++i) {
    segment.words.push_back({segment.end_s, segment.end_s + 0.3, " word", probability});
    segment.end_s += 0.3;
  }
  return segment;
}

// The second window of a recording of 100 s: 30 to 60 s.
constexpr WindowPlace kWindow{3000, 3000, 3000, 10000, 28.0};

TEST(IsAnomalous, DetectsImprobableShortAndLongWords) {
  EXPECT_FALSE(is_anomalous(said(0, 4, 0.9)));
  EXPECT_TRUE(is_anomalous(said(0, 4, 0.1)));
  EXPECT_FALSE(is_anomalous(Segment{}));
  Segment odd = said(0, 1, 0.9);
  odd.words[0].end_s = 0.05;  // (0.133 - 0.05) * 15 > 1
  EXPECT_TRUE(is_anomalous(odd));
  odd.words[0].end_s = 3.5;
  EXPECT_TRUE(is_anomalous(odd));
}

TEST(IsAnomalous, UsesEightWordsWithoutPunctuation) {
  Segment segment = said(0, 8, 0.9);
  for (int i = 0; i < 20; ++i) segment.words.push_back({3, 3.3, " odd", 0.01});
  EXPECT_FALSE(is_anomalous(segment));
  segment = said(0, 2, 0.1);
  segment.words.insert(segment.words.begin(), 9, Word{0, 0.3, ".", 0.9});
  EXPECT_TRUE(is_anomalous(segment));
}

TEST(SkipHallucinations, SkipsTheSilenceBeforeAnAnomalousFirstSegment) {
  std::vector<Segment> segments = {said(40, 4, 0.1)};
  const AfterWindow after = skip_hallucinations(segments, kWindow, 6000, true, 2);
  EXPECT_TRUE(after.again);
  EXPECT_EQ(after.seek, 4000u);
}

TEST(SkipHallucinations, DropsAnomalousSegmentsBetweenSilencesAndAllAfter) {
  std::vector<Segment> segments = {said(30, 4, 0.9), said(40, 4, 0.1), said(50, 4, 0.9)};
  const AfterWindow after = skip_hallucinations(segments, kWindow, 6000, true, 2);
  EXPECT_FALSE(after.again);
  EXPECT_EQ(segments.size(), 1u);
  EXPECT_EQ(after.seek, 4000u);
}

TEST(SkipHallucinations, AdvancesByAtLeastASecond) {
  std::vector<Segment> segments = {said(30.2, 4, 0.1), said(50, 4, 0.9)};
  const AfterWindow after = skip_hallucinations(segments, kWindow, 6000, true, 2);
  EXPECT_FALSE(after.again);
  EXPECT_TRUE(segments.empty());
  EXPECT_EQ(after.seek, 3100u);
}

TEST(SkipHallucinations, KeepsProbableSegmentsAndThoseNearSpeech) {
  for (const double probability : {0.9, 0.1}) {
    std::vector<Segment> segments = {said(33, 4, 0.9), said(34.3, 4, probability),
                                     said(35.6, 4, 0.9)};
    EXPECT_EQ(skip_hallucinations(segments, kWindow, 6000, true, 2).seek, 6000u);
    EXPECT_EQ(segments.size(), 3u);
  }
}

TEST(SkipHallucinations, ContinuesAfterTheLastWordOrAtTheNextWindow) {
  // 24 s of silence after the words: more than the threshold.
  std::vector<Segment> segments = {said(30, 20, 0.9)};
  EXPECT_EQ(skip_hallucinations(segments, kWindow, 3500, false, 2).seek, 3600u);
  // Less than the threshold.
  EXPECT_EQ(skip_hallucinations(segments, kWindow, 3500, false, 25).seek, 6000u);
}

TEST(SkipHallucinations, EndsWithAnAnomalousSegmentAtTheEndOfTheRecording) {
  WindowPlace last = kWindow;
  last.n_content = 6000;
  std::vector<Segment> segments = {said(30, 4, 0.9), said(58.5, 4, 0.1)};
  EXPECT_EQ(skip_hallucinations(segments, last, 5970, false, 2).seek, 6000u);
  EXPECT_EQ(segments.size(), 1u);
}

}  // namespace
}  // namespace vesper::hallucinations_test
