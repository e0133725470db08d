#include "decoder/windows/window_segments.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace vesper::window_segments_test {
namespace {

// Timestamps of a multilingual model begin here; t(50) is one second.
constexpr int32_t kBegin = 50364;
constexpr int32_t t(int32_t step) { return kBegin + step; }

TEST(WindowSegments, ConsecutiveTimestampsEndSegments) {
  const std::vector<int32_t> tokens{t(0), 11, 12, t(100), t(100), 13, t(250), t(250), 14};
  const WindowSegments cut = cut_window(tokens, kBegin, 3000, 3000);
  ASSERT_EQ(cut.segments.size(), 2u);
  EXPECT_DOUBLE_EQ(cut.segments[0].start_s, 30.0);
  EXPECT_DOUBLE_EQ(cut.segments[0].end_s, 32.0);
  EXPECT_EQ(cut.segments[0].tokens, (std::vector<int32_t>{t(0), 11, 12, t(100)}));
  EXPECT_DOUBLE_EQ(cut.segments[1].start_s, 32.0);
  EXPECT_DOUBLE_EQ(cut.segments[1].end_s, 35.0);
  EXPECT_EQ(cut.advance_frames, 500u);  // 14 is decoded again in the next window
}

TEST(WindowSegments, ASingleTimestampAtTheEndUsesTheWholeWindow) {
  const std::vector<int32_t> tokens{t(0), 11, t(100), t(120), 13, t(250)};
  const WindowSegments cut = cut_window(tokens, kBegin, 0, 2900);
  ASSERT_EQ(cut.segments.size(), 2u);
  EXPECT_DOUBLE_EQ(cut.segments[1].start_s, 2.4);
  EXPECT_DOUBLE_EQ(cut.segments[1].end_s, 5.0);
  EXPECT_EQ(cut.advance_frames, 2900u);
}

TEST(WindowSegments, WithoutConsecutiveTimestampsTheWindowIsOneSegment) {
  const WindowSegments with_end = cut_window(std::vector{t(0), 11, t(100)}, kBegin, 100, 1000);
  ASSERT_EQ(with_end.segments.size(), 1u);
  EXPECT_DOUBLE_EQ(with_end.segments[0].start_s, 1.0);
  EXPECT_DOUBLE_EQ(with_end.segments[0].end_s, 3.0);
  EXPECT_EQ(with_end.advance_frames, 1000u);

  const WindowSegments open = cut_window(std::vector{t(0), 11}, kBegin, 100, 1000);
  EXPECT_DOUBLE_EQ(open.segments[0].end_s, 11.0);  // a timestamp of zero is not an end
}

TEST(WindowSegments, NoTokensAdvanceByTheWindow) {
  const WindowSegments cut = cut_window({}, kBegin, 0, 700);
  ASSERT_EQ(cut.segments.size(), 1u);
  EXPECT_TRUE(cut.segments[0].tokens.empty());
  EXPECT_EQ(cut.advance_frames, 700u);
}

TEST(WindowSegments, AnEmptySegmentAtTheStartAdvancesByOneFrame) {
  const WindowSegments cut = cut_window(std::vector{t(0), t(0), 14}, kBegin, 100, 3000);
  ASSERT_EQ(cut.segments.size(), 1u);
  EXPECT_DOUBLE_EQ(cut.segments[0].start_s, cut.segments[0].end_s);
  EXPECT_EQ(cut.advance_frames, 1u);  // 0 would decode the same window for ever
}

}  // namespace
}  // namespace vesper::window_segments_test
