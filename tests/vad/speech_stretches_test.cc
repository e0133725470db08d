#include "vad/speech_stretches.h"

#include <gtest/gtest.h>

namespace vesper::speech_stretches_test {
namespace {

constexpr size_t kChunksPerMinute = 60 * 16000 / 512;

// Speech but for silences of `n` chunks from chunk `at` on.
struct Pause {
  size_t at, n;
};
std::vector<float> probabilities(size_t n_minutes, const std::vector<Pause>& pauses) {
  std::vector<float> all(n_minutes * kChunksPerMinute, 0.9f);
  for (const Pause& pause : pauses)
    std::fill_n(all.begin() + static_cast<std::ptrdiff_t>(pause.at), pause.n, 0.1f);
  return all;
}

TEST(SpeechStretches, AreCutInTheLongestSilenceNearEqualParts) {
  // Near 2 minutes a short pause and a longer one; a longer one still is far away.
  const size_t two_minutes = 2 * kChunksPerMinute;
  const std::vector<FrameSpan> parts =
      cut_at_silences(probabilities(4, {{two_minutes, 10}, {two_minutes + 200, 20}, {100, 90}}),
                      std::vector<FrameSpan>{{0, 24000}}, 2);
  ASSERT_EQ(parts.size(), 2u);
  const auto cut = static_cast<uint64_t>((two_minutes + 210) * 3.2);
  EXPECT_NEAR(static_cast<double>(parts[0].end), static_cast<double>(cut), 2);
  EXPECT_EQ(parts[0].begin, 0u);
  EXPECT_EQ(parts[1].begin, parts[0].end);
  EXPECT_EQ(parts[1].end, 24000u);
}

TEST(SpeechStretches, AreFramesOfWhatWasKept) {
  // The silence at 3 minutes of the recording is at 2 minutes of what was kept.
  const size_t three_minutes = 3 * kChunksPerMinute;
  const std::vector<FrameSpan> parts =
      cut_at_silences(probabilities(5, {{three_minutes, 30}}),
                      std::vector<FrameSpan>{{0, 6000}, {12000, 30000}}, 2);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_NEAR(static_cast<double>(parts[0].end), 12000 + 15 * 3.2, 3);
  EXPECT_EQ(parts[1].end, 24000u);
}

TEST(SpeechStretches, AreNotShorterThanAWindowAndCutAnywhereWithoutASilence) {
  const std::vector<FrameSpan> kept{{0, 9500}};
  const std::vector<FrameSpan> parts = cut_at_silences(probabilities(2, {}), kept, 8);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0], (FrameSpan{0, 3166}));
  EXPECT_EQ(parts[2].end, 9500u);
  EXPECT_EQ(cut_at_silences(probabilities(1, {}), std::vector<FrameSpan>{{0, 100}}, 8).size(), 1u);
  EXPECT_TRUE(cut_at_silences(probabilities(1, {}), {}, 8).empty());
}

}  // namespace
}  // namespace vesper::speech_stretches_test
