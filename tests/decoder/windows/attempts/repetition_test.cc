#include "decoder/windows/attempts/repetition.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vesper::repetition_test {
namespace {

using Tokens = std::vector<int32_t>;

Tokens times(size_t n, const Tokens& round) {
  Tokens tokens;
  for (size_t i = 0; i < n; ++i) tokens.insert(tokens.end(), round.begin(), round.end());
  return tokens;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Tokens kSentence = {11, 12, 13, 14, 15, 16, 17};

TEST(IsOneLoop, RequiresThreeRoundsOfMostOfTheText) {
  EXPECT_TRUE(is_one_loop(times(3, kSentence)));
  EXPECT_TRUE(is_one_loop(Tokens{1} + Tokens(3, 7)));
  EXPECT_FALSE(is_one_loop(Tokens{1, 2} + Tokens(3, 7)));
  EXPECT_FALSE(is_one_loop(times(2, kSentence)));
  EXPECT_FALSE(is_one_loop({}));
}

// The values of Python's len(text) / len(zlib.compress(text)), zlib 1.2.13.
TEST(CompressionRatio, EqualsZlib) {
  EXPECT_EQ(compression_ratio(""), 0);
  EXPECT_NEAR(compression_ratio("you"), 3.0 / 11, 1e-9);
  std::string loop;
  for (int i = 0; i < 20; ++i) loop += "I'm going to go back. ";
  EXPECT_GT(compression_ratio(loop), 10);
}

}  // namespace
}  // namespace vesper::repetition_test
