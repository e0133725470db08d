#include "llm/generation/ngram_lookup.h"

#include <gtest/gtest.h>

#include <vector>

namespace vesper::ngram_lookup_test {
namespace {

using Tokens = std::vector<int32_t>;

NgramLookup::Match match_of(const Tokens& text) {
  NgramLookup lookup(static_cast<uint32_t>(text.size()));
  lookup.extend(text);
  return lookup.find(text);
}

Tokens continuation(const Tokens& text, size_t n) {
  Tokens out(n);
  NgramLookup::continue_from(match_of(text), text, out);
  return out;
}

TEST(NgramLookup, FindsTheLongestEarlierOccurrence) {
  //                     0  1  2  3  4  5  6  7  8  9 10 11
  const Tokens text = {1, 2, 3, 4, 9, 2, 3, 4, 5, 1, 2, 3};
  EXPECT_EQ(match_of(text).next, 3u);  // 1 2 3, not 2 3 at 5
  EXPECT_EQ(match_of(text).length, 3u);
}

TEST(NgramLookup, TakesTheLastOfEquallyLongOccurrences) {
  const Tokens text = {1, 2, 7, 1, 2, 8, 1, 2};
  EXPECT_EQ(match_of(text).next, 5u);
  EXPECT_EQ(match_of(text).length, 2u);
}

TEST(NgramLookup, NeedsTwoTokens) {
  EXPECT_EQ(match_of({1, 2, 3, 4, 3}).length, 0u);
  EXPECT_EQ(match_of({1, 2}).length, 0u);
  EXPECT_EQ(match_of({1}).length, 0u);
  EXPECT_EQ(match_of({}).length, 0u);
}

TEST(NgramLookup, ContinuesAsAfterTheOccurrence) {
  EXPECT_EQ(continuation({1, 2, 7, 8, 9, 1, 2}, 3), (Tokens{7, 8, 9}));
}

TEST(NgramLookup, RepeatsThePeriodAtTheEnd) {
  EXPECT_EQ(continuation({5, 1, 2, 3, 1, 2, 3, 1, 2}, 7), (Tokens{3, 1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(continuation({4, 4, 4}, 3), (Tokens{4, 4, 4}));
}

TEST(NgramLookup, FindsTheSameWhenTheTextGrows) {
  Tokens text;
  NgramLookup lookup(600);
  for (int32_t i = 0; i < 600; ++i) {
    text.push_back(i * i % 23 % 7);
    lookup.extend(text);
    const NgramLookup::Match grown = lookup.find(text), whole = match_of(text);
    ASSERT_EQ(grown.length, whole.length) << i;
    ASSERT_EQ(grown.next, whole.next) << i;
  }
}

TEST(NgramLookup, ForgetsAClearedText) {
  NgramLookup lookup(8);
  lookup.extend(Tokens{1, 2, 3, 1, 2});
  lookup.clear();
  const Tokens other = {1, 2, 4};
  lookup.extend(other);
  EXPECT_EQ(lookup.find(Tokens{1, 2, 4}).length, 0u);
}

TEST(NgramLookup, LimitsTheLengthOfAMatch) {
  const Tokens same(100, 3);
  EXPECT_EQ(match_of(same).length, NgramLookup::kMostLength);
}

}  // namespace
}  // namespace vesper::ngram_lookup_test
