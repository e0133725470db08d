// Numbers of a JSON Schema as texts. In: bounds and multiples. Out: an automaton of the decimal
// texts of such numbers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "llm/grammar/regex/text_dfa.h"

namespace vesper {

// Digits of a number without a bound. Fewer than a 64-bit integer has, so every reader takes them.
constexpr uint32_t kMaxIntegerDigits = 18;
// Digits of a number with a fraction. A double keeps so many, so rounding moves no number over a
// bound.
constexpr uint32_t kMaxFractionalDigits = 15;

// An exact decimal number.
struct Decimal {
  bool negative = false;  // not for zero
  std::string integer;    // digits without leading zeros; empty for 0
  std::string fraction;   // digits without trailing zeros

  bool is_zero() const { return integer.empty() && fraction.empty(); }
};

Decimal decimal_of(const nlohmann::json& number);
std::string text_of(const Decimal& number);
// Negative, 0 or positive, as a is less than, equal to or greater than b.
int compare(const Decimal& a, const Decimal& b);
// Throws Error(kUsage) if `divisor` has too many digits for an automaton.
bool is_multiple(const Decimal& number, const Decimal& divisor);

struct NumberBound {
  Decimal value;
  bool exclusive = false;
};

struct NumberSet {
  bool integers = true;   // numbers without a fractional part, written without one
  bool fractions = true;  // numbers with one
  std::optional<NumberBound> min, max;
  std::vector<Decimal> divisors;      // numbers are multiples of each
  std::vector<Decimal> non_divisors;  // ... and of none of these
  std::vector<Decimal> excluded;

  bool is_unlimited() const {
    return integers && !min && !max && divisors.empty() && non_divisors.empty() && excluded.empty();
  }
  bool contains(const Decimal& number) const;
};

// The texts of the numbers, without exponents and without -0. Throws Error(kUsage) if the automaton
// has too many states, as that of a multiple of 12,345,678.
TextDfa texts_of(const NumberSet& numbers);

}  // namespace vesper
