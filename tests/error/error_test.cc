// Error messages.
#include "error/error.h"

#include <gtest/gtest.h>

#include <string>

namespace vesper::error_test {
namespace {

TEST(Error, IsOneLineWhateverNamesItQuotes) {
  const Error error(ErrorKind::kModel, "expected \"a\nb\" to be a token, found \x1b[31m\x7f ü");
  EXPECT_STREQ(error.what(), "expected \"a\\nb\" to be a token, found \\x1b[31m\\x7f ü");
  EXPECT_EQ(error.kind(), ErrorKind::kModel);
  EXPECT_EQ(error.setting(), "");
}

TEST(Error, BeginsWithTheWrongSetting) {
  const Error error(ErrorKind::kUsage, "beam size", "expected 1 or more,\tfound 0");
  EXPECT_STREQ(error.what(), "beam size: expected 1 or more,\\x09found 0");
  EXPECT_EQ(error.setting(), "beam size");
}

}  // namespace
}  // namespace vesper::error_test
