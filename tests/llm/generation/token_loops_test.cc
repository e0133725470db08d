#include "llm/generation/token_loops.h"

#include <gtest/gtest.h>

#include <vector>

namespace vesper::token_loops_test {
namespace {

using Tokens = std::vector<int32_t>;

TEST(FinalLoop, HasTheShortestPeriodAndTheWholeLength) {
  const Tokens tokens = {9, 1, 2, 1, 2, 1, 2, 1};
  const TokenLoop loop = final_loop(tokens, 3, 1);
  EXPECT_EQ(loop.period, 2u);
  EXPECT_EQ(loop.length, 7u);
}

TEST(FinalLoop, NeedsTheRoundsAndTheLength) {
  const Tokens tokens = {9, 1, 2, 1, 2, 1, 2};
  EXPECT_EQ(final_loop(tokens, 3, 6).length, 6u);
  EXPECT_EQ(final_loop(tokens, 4, 1).period, 0u);
  EXPECT_EQ(final_loop(tokens, 3, 7).period, 0u);
  EXPECT_EQ(final_loop({}, 2, 0).period, 0u);
}

TEST(FinalLoop, EndsWithTheSequence) {
  EXPECT_EQ(final_loop(Tokens{1, 1, 1, 1, 2}, 2, 2).period, 0u);
  EXPECT_EQ(final_loop(Tokens{2, 1, 1, 1, 1}, 2, 2).length, 4u);
}

TEST(LongestLoop, MayBeAnywhere) {
  const TokenLoop loop = longest_loop(Tokens{3, 3, 3, 5, 1, 2, 1, 2, 1, 2, 1, 7}, 3);
  EXPECT_EQ(loop.period, 2u);
  EXPECT_EQ(loop.length, 7u);
  EXPECT_EQ(longest_loop(Tokens{1, 2, 3}, 2).period, 0u);
}

TEST(LongestLoop, MayHaveExactlyTheRounds) {
  const Tokens tokens = {7, 1, 2, 1, 2, 1, 2, 9};
  EXPECT_EQ(longest_loop(tokens, 3).length, 6u);
  EXPECT_EQ(longest_loop(tokens, 4).period, 0u);
}

}  // namespace
}  // namespace vesper::token_loops_test
