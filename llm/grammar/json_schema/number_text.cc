#include "llm/grammar/json_schema/number_text.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "error/error.h"
#include "llm/grammar/regex/regex.h"

namespace vesper {
namespace {

// Order of magnitudes of two numbers.
int compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (a.integer.size() != b.integer.size()) return a.integer.size() < b.integer.size() ? -1 : 1;
  const int integers = a.integer.compare(b.integer);
  return integers != 0 ? integers : a.fraction.compare(b.fraction);
}

// `units` / 10^`n_decimals`
struct Divisor {
  uint64_t units = 0;
  size_t n_decimals = 0;
};

Divisor divisor_of(const Decimal& decimal) {
  const std::string digits = decimal.integer + decimal.fraction;
  Divisor divisor{.units = 0, .n_decimals = decimal.fraction.size()};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), divisor.units);
  if (error != std::errc() || divisor.units == 0 ||
      divisor.units * (divisor.n_decimals + 1) > kMaxDfaStates) {
    throw Error(ErrorKind::kUsage,
                "expected a divisor of few digits, at most 20,000 without the decimal point");
  }
  return divisor;
}

// Feeds the digits of a number; whether it is a multiple.
class Remainder {
 public:
  explicit Remainder(const Divisor& divisor) : divisor_(divisor) {}

  uint64_t after(uint64_t remainder, uint32_t digit) const {
    return (remainder * 10 + digit) % divisor_.units;
  }
  // `n_decimals`: digits read after the point.
  bool is_multiple(uint64_t remainder, size_t n_decimals) const {
    for (; n_decimals < divisor_.n_decimals; ++n_decimals) remainder = after(remainder, 0);
    return remainder == 0;
  }

 private:
  const Divisor& divisor_;
};

// The texts of multiples, without a sign.
TextDfa multiples_of(const Divisor& divisor) {
  const Remainder remainder(divisor);
  const auto n = static_cast<uint32_t>(divisor.units);
  const auto n_decimals = static_cast<uint32_t>(divisor.n_decimals);
  // State [d * n + r]: remainder r; d = 0 before the point, else d - 1 digits after it.
  const auto state_of = [&](uint32_t d, uint64_t r) { return d * n + static_cast<uint32_t>(r); };
  TextDfa dfa;
  for (uint32_t d = 0; d <= n_decimals + 1; ++d) {
    for (uint32_t r = 0; r < n; ++r) {
      TextDfa::State state;
      state.accepts = remainder.is_multiple(r, d == 0 ? 0 : d - 1);
      if (d == 0) state.edges.push_back({'.', '.', state_of(1, r)});
      if (d == n_decimals + 1) {
        state.edges.push_back({'0', '0', state_of(d, r)});
      } else {
        for (uint32_t digit = 0; digit < 10; ++digit) {
          const uint64_t next = remainder.after(r, digit);
          state.edges.push_back({'0' + digit, '0' + digit, state_of(d == 0 ? 0 : d + 1, next)});
        }
      }
      dfa.states.push_back(std::move(state));
    }
  }
  return trimmed(dfa);
}

enum Order : uint32_t { kLess = 0, kEqual = 1, kGreater = 2 };

Order order_of_digits(Order so_far, uint32_t digit, uint32_t other) {
  if (so_far != kEqual || digit == other) return so_far;
  return digit < other ? kLess : kGreater;
}

// Texts of numbers without a sign and without leading zeros whose order with the magnitude of
// `bound` is among those that are wanted.
TextDfa compared(const Decimal& bound, bool less, bool equal, bool greater) {
  const auto n_integer = static_cast<uint32_t>(bound.integer.size());
  const auto n_fraction = static_cast<uint32_t>(bound.fraction.size());
  // States: [3 * i + order] after i digits of the integer; then a longer integer, the integer 0, a
  // fraction that is less, one that is greater, and fractions equal so far after j digits.
  const uint32_t longer = 3 * (n_integer + 1), zero = longer + 1, lower = longer + 2,
                 higher = longer + 3, same = longer + 4;
  const auto wanted = [&](Order order) {
    return order == kLess ? less : order == kEqual ? equal : greater;
  };
  const auto order_of_equal = [&](uint32_t n_read) { return n_read < n_fraction ? kLess : kEqual; };
  const auto fraction_state = [&](Order order) {
    return order == kLess ? lower : order == kGreater ? higher : same;
  };
  TextDfa dfa;
  dfa.states.resize(same + n_fraction + 1);
  const auto end_integer = [&](uint32_t state, Order order) {
    dfa.states[state].accepts = wanted(order == kEqual ? order_of_equal(0) : order);
    // '.' is below the digits, so its edge comes first.
    dfa.states[state].edges.insert(dfa.states[state].edges.begin(),
                                   {'.', '.', fraction_state(order)});
  };
  for (uint32_t i = 0; i <= n_integer; ++i) {
    for (const Order order : {kLess, kEqual, kGreater}) {
      const uint32_t state = 3 * i + order;
      for (uint32_t digit = 0; digit < 10; ++digit) {
        uint32_t to = longer;
        if (i == 0 && digit == 0) {
          to = zero;
        } else if (i < n_integer) {
          to = 3 * (i + 1) + order_of_digits(order, digit, uint32_t(bound.integer[i] - '0'));
        }
        dfa.states[state].edges.push_back({'0' + digit, '0' + digit, to});
      }
      if (i > 0) end_integer(state, i < n_integer ? kLess : order);
    }
  }
  // The start is the state of "equal".
  std::swap(dfa.states[0], dfa.states[kEqual]);
  dfa.states[longer].edges.push_back({'0', '9', longer});
  end_integer(longer, kGreater);
  end_integer(zero, n_integer == 0 ? kEqual : kLess);
  dfa.states[lower] = {.edges = {{'0', '9', lower}}, .accepts = less};
  dfa.states[higher] = {.edges = {{'0', '9', higher}}, .accepts = greater};
  for (uint32_t j = 0; j <= n_fraction; ++j) {
    TextDfa::State& state = dfa.states[same + j];
    state.accepts = wanted(order_of_equal(j));
    const uint32_t next = std::min(j + 1, n_fraction);
    const uint32_t other = j < n_fraction ? uint32_t(bound.fraction[j] - '0') : 0;
    for (uint32_t digit = 0; digit < 10; ++digit) {
      const Order order = order_of_digits(kEqual, digit, other);
      state.edges.push_back(
          {'0' + digit, '0' + digit, order == kEqual ? same + next : fraction_state(order)});
    }
  }
  return trimmed(dfa);
}

TextDfa texts_of_pattern(const std::string& pattern) {
  return texts_that_match(parse_regex(pattern));
}

// All numbers without a sign.
TextDfa unsigned_texts(const NumberSet& numbers) {
  uint32_t n_integer = kMaxIntegerDigits;
  for (const auto* bound : {&numbers.min, &numbers.max}) {
    if (*bound) n_integer = std::max(n_integer, uint32_t((*bound)->value.integer.size()));
  }
  TextDfa integers, fractions;
  if (numbers.integers)
    integers = texts_of_pattern("0|[1-9][0-9]{0," + std::to_string(n_integer - 1) + "}");
  if (numbers.fractions) {
    // With integers, 1.0 is another text of 1.
    const std::string end = numbers.integers ? "[0-9]+" : "[0-9]*[1-9][0-9]*";
    fractions =
        with_length(texts_of_pattern("(0|[1-9][0-9]*)\\." + end), {0, kMaxFractionalDigits + 1});
  }
  if (fractions.is_empty()) return integers;
  return integers.is_empty() ? fractions : union_of(integers, fractions);
}

// The magnitudes of the numbers with this sign.
TextDfa magnitudes(const NumberSet& numbers, bool negative) {
  TextDfa texts = unsigned_texts(numbers);
  const auto restrict = [&](const TextDfa& set) { texts = intersection_of(texts, set); };
  if (negative) restrict(compared(Decimal{}, false, false, true));
  // For negative numbers the greatest magnitude is that of the minimum.
  const auto& lowest = negative ? numbers.max : numbers.min;
  const auto& highest = negative ? numbers.min : numbers.max;
  if (lowest && lowest->value.negative == negative)
    restrict(compared(lowest->value, false, !lowest->exclusive, true));
  if (highest && (highest->value.negative == negative && !highest->value.is_zero())) {
    restrict(compared(highest->value, true, !highest->exclusive, false));
  } else if (highest && (negative || highest->value.negative)) {
    return {};
  } else if (highest) {
    restrict(compared(highest->value, false, !highest->exclusive, false));
  }
  for (const Decimal& divisor : numbers.divisors) restrict(multiples_of(divisor_of(divisor)));
  for (const Decimal& divisor : numbers.non_divisors)
    restrict(complement_of(multiples_of(divisor_of(divisor))));
  for (const Decimal& number : numbers.excluded) {
    if (number.negative == negative) restrict(compared(number, true, false, true));
  }
  return texts;
}

}  // namespace

Decimal decimal_of(const nlohmann::json& number) {
  std::string text = number.dump();
  Decimal decimal;
  if (text.starts_with('-')) {
    decimal.negative = true;
    text.erase(0, 1);
  }
  int exponent = 0;
  if (const size_t e = text.find('e'); e != std::string::npos) {
    const size_t digits = e + (text[e + 1] == '+' ? 2 : 1);
    std::from_chars(text.data() + digits, text.data() + text.size(), exponent);
    text.resize(e);
  }
  const size_t point = text.find('.');
  decimal.integer = text.substr(0, point);
  if (point != std::string::npos) decimal.fraction = text.substr(point + 1);
  for (; exponent > 0; --exponent) {
    decimal.integer += decimal.fraction.empty() ? '0' : decimal.fraction.front();
    if (!decimal.fraction.empty()) decimal.fraction.erase(0, 1);
  }
  for (; exponent < 0; ++exponent) {
    decimal.fraction.insert(0, 1, decimal.integer.empty() ? '0' : decimal.integer.back());
    if (!decimal.integer.empty()) decimal.integer.pop_back();
  }
  decimal.integer.erase(0,
                        std::min(decimal.integer.find_first_not_of('0'), decimal.integer.size()));
  decimal.fraction.resize(decimal.fraction.find_last_not_of('0') + 1);
  if (decimal.is_zero()) decimal.negative = false;
  return decimal;
}

std::string text_of(const Decimal& number) {
  std::string text = number.negative ? "-" : "";
  text += number.integer.empty() ? "0" : number.integer;
  return number.fraction.empty() ? text : text + "." + number.fraction;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int magnitudes = compare_magnitudes(a, b);
  return a.negative ? -magnitudes : magnitudes;
}

bool is_multiple(const Decimal& number, const Decimal& divisor) {
  const Divisor of = divisor_of(divisor);
  if (number.fraction.size() > of.n_decimals) return false;
  const Remainder remainder(of);
  uint64_t rest = 0;
  for (const char digit : number.integer + number.fraction)
    rest = remainder.after(rest, uint32_t(digit - '0'));
  return remainder.is_multiple(rest, number.fraction.size());
}

bool NumberSet::contains(const Decimal& number) const {
  if (!(number.fraction.empty() ? integers : fractions)) return false;
  const int from_min = min ? compare(number, min->value) : 1;
  const int from_max = max ? compare(number, max->value) : -1;
  const auto divides = [&](const Decimal& divisor) { return is_multiple(number, divisor); };
  return from_min >= (min && min->exclusive ? 1 : 0) &&
         from_max <= (max && max->exclusive ? -1 : 0) &&
         std::all_of(divisors.begin(), divisors.end(), divides) &&
         std::none_of(non_divisors.begin(), non_divisors.end(), divides) &&
         std::none_of(excluded.begin(), excluded.end(),
                      [&](const Decimal& other) { return compare(number, other) == 0; });
}

TextDfa texts_of(const NumberSet& numbers) {
  const TextDfa positive = magnitudes(numbers, false);
  const TextDfa negative = magnitudes(numbers, true);
  if (negative.is_empty()) return positive;
  // A start of its own: that of the positive numbers, with an edge for the sign.
  TextDfa texts = positive;
  if (texts.is_empty()) texts.states.emplace_back();
  const auto offset = static_cast<uint32_t>(texts.states.size());
  texts.states[0].edges.insert(texts.states[0].edges.begin(), {'-', '-', offset});
  for (TextDfa::State state : negative.states) {
    for (TextDfa::Edge& edge : state.edges) edge.to += offset;
    texts.states.push_back(std::move(state));
  }
  return texts;
}

}  // namespace vesper
