#include "llm/grammar/json_schema/number_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "error/error.h"

namespace vesper {
namespace {

Decimal decimal(const char* text) { return decimal_of(nlohmann::json::parse(text)); }

TEST(NumberText, DecimalsAreExact) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"0", "0"},        {"-0.0", "0"},
      {"1.50", "1.5"},   {"-12", "-12"},
      {"1e3", "1000"},   {"1.25e1", "12.5"},
      {"1e-3", "0.001"}, {"-2.5e-7", "-0.00000025"},
      {"100", "100"},    {"18446744073709551615", "18446744073709551615"}};
  for (const auto& [number, text] : cases) EXPECT_EQ(text_of(decimal(number)), text);
  EXPECT_LT(compare(decimal("-2"), decimal("-1.5")), 0);
  EXPECT_GT(compare(decimal("10"), decimal("9.99")), 0);
  EXPECT_EQ(compare(decimal("1.0"), decimal("1")), 0);
  EXPECT_TRUE(is_multiple(decimal("7.5"), decimal("2.5")));
  EXPECT_FALSE(is_multiple(decimal("7.6"), decimal("2.5")));
}

// All numbers -30 to 30 in steps of 1/8, by arithmetic.
TEST(NumberText, TextsAreThoseOfTheNumbersInASet) {
  const std::vector<const char*> bounds = {"-10.25", "-3", "0", "0.125", "12.5"};
  const auto check = [](const NumberSet& set, double min, bool above, double max, bool below,
                        double divisor) {
    const TextDfa texts = texts_of(set);
    for (int i = -240; i <= 240; ++i) {
      const double x = i / 8.0;
      const Decimal number = decimal(nlohmann::json(x).dump().c_str());
      const bool expected = (above ? x > min : x >= min) && (below ? x < max : x <= max) &&
                            (divisor == 0 || std::fmod(x, divisor) == 0) &&
                            (set.fractions || i % 8 == 0) && (set.integers || i % 8 != 0);
      ASSERT_EQ(texts.accepts(text_of(number)), expected)
          << text_of(number) << " of " << min << ".." << max << " / " << divisor;
      ASSERT_EQ(set.contains(number), expected) << text_of(number);
    }
    EXPECT_FALSE(texts.accepts("-0"));
    EXPECT_FALSE(texts.accepts("01"));
    EXPECT_FALSE(texts.accepts(""));
    EXPECT_FALSE(texts.accepts("."));
  };
  for (const char* low : bounds) {
    for (const char* high : bounds) {
      for (int exclusive = 0; exclusive < 4; ++exclusive) {
        for (const char* divisor : {"0", "3", "0.5"}) {
          NumberSet set;
          set.fractions = divisor[0] != '3';
          set.min = NumberBound{decimal(low), exclusive % 2 == 1};
          set.max = NumberBound{decimal(high), exclusive / 2 == 1};
          if (divisor[0] != '0' || divisor[1] != 0) set.divisors = {decimal(divisor)};
          check(set, std::stod(low), set.min->exclusive, std::stod(high), set.max->exclusive,
                std::stod(divisor));
        }
      }
    }
  }
  NumberSet no_integers;
  no_integers.integers = false;
  check(no_integers, -1e9, false, 1e9, false, 0);
}

TEST(NumberText, ExcludedNumbersHaveNoText) {
  NumberSet set;
  set.fractions = false;
  set.excluded = {decimal("5"), decimal("-7"), decimal("0")};
  set.non_divisors = {decimal("4")};
  const TextDfa texts = texts_of(set);
  for (const char* text : {"5", "-7", "0", "8", "-12"}) EXPECT_FALSE(texts.accepts(text)) << text;
  for (const char* text : {"6", "-5", "7", "55", "10"}) EXPECT_TRUE(texts.accepts(text)) << text;
}

TEST(NumberText, IntegersHaveAtMost18Digits) {
  NumberSet set;
  set.fractions = false;
  set.min = NumberBound{decimal("1"), false};
  const TextDfa texts = texts_of(set);
  EXPECT_TRUE(texts.accepts("999999999999999999"));
  EXPECT_FALSE(texts.accepts("1000000000000000000"));
  set.max = NumberBound{decimal("18446744073709551615"), false};
  EXPECT_TRUE(texts_of(set).accepts("18446744073709551615"));
  EXPECT_FALSE(texts_of(set).accepts("18446744073709551616"));
}

TEST(NumberText, LargeDivisorsAreErrors) {
  EXPECT_THROW(is_multiple(decimal("1"), decimal("12345678")), Error);
  EXPECT_THROW(is_multiple(decimal("1"), decimal("1e300")), Error);
  NumberSet set;
  set.divisors = {decimal("9973"), decimal("9967")};
  EXPECT_THROW(texts_of(set), Error);
}

}  // namespace
}  // namespace vesper
