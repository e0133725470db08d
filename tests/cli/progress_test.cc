#include "cli/terminal/progress.h"

#include <gtest/gtest.h>

#include <cmath>

namespace vesper::progress_test {
namespace {

TEST(ShortDuration, ShowsHoursOnlyIfNeeded) {
  EXPECT_EQ(short_duration(0), "0:00");
  EXPECT_EQ(short_duration(59.6), "1:00");
  EXPECT_EQ(short_duration(754), "12:34");
  EXPECT_EQ(short_duration(3723), "1:02:03");
  EXPECT_EQ(short_duration(-5), "0:00");
  EXPECT_EQ(short_duration(std::nan("")), "0:00");
}

TEST(ProgressText, HasALabelABarAPercentageAndDetails) {
  EXPECT_EQ(progress_text("talk.wav", 0.5, "1:00 of 2:00  0:10 left", 80, false),
            "talk.wav [==========          ]  50%  1:00 of 2:00  0:10 left");
  EXPECT_EQ(progress_text("talk.wav", -1, "1:00", 80, false), "talk.wav  1:00");
}

TEST(ProgressText, NeverFillsTheLastColumn) {
  const std::string label = "a/very/long/path/to/a/recording/of/something/talk.wav";
  for (int columns = 10; columns < 200; ++columns) {
    const std::string text = progress_text(
        label, 0.999, "1:00:00 of 2:00:00  100.0x real time  0:36 left", columns, false);
    EXPECT_LT(text.size(), static_cast<size_t>(columns)) << text;
  }
}

TEST(ProgressText, CutsLabelsBetweenCharacters) {
  std::string label;
  for (int i = 0; i < 60; ++i) label += "\xC3\xA9";  // é
  const std::string text = progress_text(label, -1, "", 80, false);
  EXPECT_EQ(text.substr(0, 5), "...\xC3\xA9");
  EXPECT_EQ(text.size() % 2, 1u);
}

}  // namespace
}  // namespace vesper::progress_test
