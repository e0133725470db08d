#include "cli/answer_writer.h"

#include <gtest/gtest.h>

namespace vesper::answer_writer_test {
namespace {

TEST(StopTexts, HoldBackWhatMayBeginOne) {
  StopTexts stops({"END", "##"});
  EXPECT_EQ(stops.push("text E"), "text ");
  EXPECT_EQ(stops.push("N"), "");
  EXPECT_EQ(stops.push("TRY #"), "ENTRY ");
  EXPECT_EQ(stops.push("1"), "#1");
  EXPECT_FALSE(stops.is_stopped());
  EXPECT_EQ(stops.push(" EN"), " ");
  EXPECT_EQ(stops.push("D more"), "");
  EXPECT_TRUE(stops.is_stopped());
  EXPECT_EQ(stops.push("more"), "");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopTexts, GiveTheRestAtTheEnd) {
  StopTexts stops({"\n\n"});
  EXPECT_EQ(stops.push("a\n"), "a");
  EXPECT_EQ(stops.finish(), "\n");
}

TEST(StopTexts, EndBeforeTheFirstOfThem) {
  StopTexts stops({"two", "one"});
  EXPECT_EQ(stops.push("zero one two"), "zero ");
  EXPECT_TRUE(stops.is_stopped());
}

TEST(StopTexts, LetEverythingThroughWhereThereAreNone) {
  StopTexts stops({});
  EXPECT_EQ(stops.push("anything"), "anything");
}

}  // namespace
}  // namespace vesper::answer_writer_test
