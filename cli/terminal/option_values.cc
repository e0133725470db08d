#include "cli/terminal/option_values.h"

#include <charconv>
#include <limits>

#include "error/error.h"

namespace vesper {
void throw_usage(const std::string& option, const std::string& expected, const std::string& found) {
  throw Error(ErrorKind::kUsage, option + ": expected " + expected + ", found \"" + found + "\"");
}

std::vector<std::string> split_at_commas(const std::string& list) {
  std::vector<std::string> parts(1);
  for (char c : list) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// A finite decimal number in [low, high].
double parse_number(const std::string& option, const std::string& text, double low, double high,
                    const std::string& expected) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(value >= low && value <= high)) {
    throw_usage(option, expected, text);
  }
  return value;
}

int64_t parse_integer(const std::string& option, const std::string& text, int64_t low, int64_t high,
                      const std::string& expected) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    throw_usage(option, expected, text);
  }
  return value;
}

int64_t parse_integer(const std::string& option, const std::string& text, int64_t low,
                      int64_t high) {
  return parse_integer(option, text, low, high,
                       "a number from " + std::to_string(low) + " to " + std::to_string(high));
}

std::optional<double> parse_threshold(const std::string& option, const std::string& text) {
  if (text == "none" || text == "None") return std::nullopt;
  constexpr double kAny = std::numeric_limits<double>::max();
  return parse_number(option, text, -kAny, kAny, "a number or none");
}

bool parse_truth(const std::string& option, const std::string& text) {
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  throw_usage(option, "true or false", text);
}

std::string parse_choice(const std::string& option, const std::string& text,
                         std::initializer_list<std::string_view> choices) {
  std::string expected;
  for (std::string_view choice : choices) {
    if (text == choice) return text;
    expected += (expected.empty() ? "" : ", ") + std::string(choice);
  }
  throw_usage(option, "one of " + expected, text);
}

}  // namespace vesper
