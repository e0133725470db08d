#include "decoder/windows/languages/language_detection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vesper::language_detection_test {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

TEST(LanguageVote, AProbableWindowDecidesAlone) {
  LanguageVote vote(0.5);
  EXPECT_FALSE(vote.add(std::vector<float>{0.5f, 0.3f, 0.2f})) << "the threshold is not passed";
  EXPECT_TRUE(vote.add(std::vector<float>{0.1f, 0.3f, 0.6f}));
  EXPECT_TRUE(vote.add(std::vector<float>{1.0f, 0.0f, 0.0f}));
  EXPECT_THAT(vote.result(), ElementsAre(FloatEq(0.1f), FloatEq(0.3f), FloatEq(0.6f)));
}

TEST(LanguageVote, ImprobableWindowsAreAveraged) {
  LanguageVote vote(0.9);
  EXPECT_TRUE(vote.result().empty());
  EXPECT_FALSE(vote.add(std::vector<float>{0.5f, 0.3f, 0.2f}));
  EXPECT_FALSE(vote.add(std::vector<float>{0.1f, 0.7f, 0.2f}));
  EXPECT_THAT(vote.result(), ElementsAre(FloatEq(0.3f), FloatEq(0.5f), FloatEq(0.2f)));
}

TEST(RankedLanguages, StartWithTheMostProbable) {
  const auto ranked = ranked_languages(std::vector<float>{0.2f, 0.5f, 0.3f});
  ASSERT_EQ(ranked.size(), 3u);
  EXPECT_EQ(ranked[0].language, "zh");
  EXPECT_FLOAT_EQ(static_cast<float>(ranked[0].probability), 0.5f);
  EXPECT_EQ(ranked[1].language, "de");
  EXPECT_EQ(ranked[2].language, "en");
}

}  // namespace
}  // namespace vesper::language_detection_test
