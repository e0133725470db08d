// Numbers for people.
#include "error/number_text.h"

#include <gtest/gtest.h>

namespace vesper::number_text_test {
namespace {

TEST(NumberText, WritesSizesInPowersOfAThousand) {
  EXPECT_EQ(bytes_text(999), "999 bytes");
  EXPECT_EQ(bytes_text(75'537'502), "75.5 MB");
  EXPECT_EQ(bytes_text(999'950), "1.0 MB");
}

TEST(NumberText, GroupsDigitsByThree) {
  EXPECT_EQ(grouped(134515008), "134,515,008");
  EXPECT_EQ(grouped(123456), "123,456");
  EXPECT_EQ(grouped(12), "12");
  EXPECT_EQ(grouped(0), "0");
}

}  // namespace
}  // namespace vesper::number_text_test
