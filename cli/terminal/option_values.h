// Option values: how each is parsed, checked and stored. An error message names the option, what
// was expected and what was found.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "error/bounds.h"

namespace vesper {

// Throws Error(kUsage).
[[noreturn]] void throw_usage(const std::string& option, const std::string& expected,
                              const std::string& found);

// Each of these parsers throws Error(kUsage) for invalid text.

// A finite decimal number in [low, high]. `expected` describes the range in the error.
double parse_number(const std::string& option, const std::string& text, double low, double high,
                    const std::string& expected);
int64_t parse_integer(const std::string& option, const std::string& text, int64_t low, int64_t high,
                      const std::string& expected);
// Splits "a,b,c". An empty text gives one empty part.
std::vector<std::string> split_at_commas(const std::string& list);
// Token ids in decimal, separated by spaces or commas, optionally in brackets. Empty text gives no
// ids. Throws Error(kInput) if the text is anything else.
std::vector<int32_t> parse_token_ids(std::string_view text);
// The shortest decimal text that parses to the same number: "2.4", "0.0001".
std::string decimal_text(double value);

// What a shell completes the value with, besides `choices`.
enum class Completion { kNone, kFile, kFolder };

struct OptionValue {
  // Parses and stores the text, or throws Error(kUsage). The text of a flag is empty.
  std::function<void(const std::string& option, const std::string& text)> store;
  bool is_flag = false;
  bool is_repeatable = false;            // each occurrence adds a value
  bool is_list = false;                  // accepts choices joined by commas
  std::vector<std::string> choices;      // all valid values, if not empty
  std::vector<std::string> suggestions;  // some valid values, for shell completion
  std::string range;                     // "1 to 1024"
  std::string default_text;
  Completion completion = Completion::kNone;

  OptionValue with_default(std::string text) const;
  OptionValue with_suggestions(std::vector<std::string> texts) const;
};

// The functions below read the default value from the target when they are called.

OptionValue flag_option(bool& target);
OptionValue flag_option(std::function<void()> action);
OptionValue text_option(std::string& target);
OptionValue text_option(std::optional<std::string>& target);
OptionValue repeated_option(std::vector<std::string>& target);
// `store` parses and checks the text.
OptionValue parsed_option(std::function<void(const std::string& option, const std::string& text)>);
// The name of a file to read, or "-" if `takes_stdin`; not empty.
template <class Text>  // std::string or std::optional<std::string>
OptionValue file_option(Text& target, bool takes_stdin = false);
// The name of a file to write. "-" (standard output) is stored as an empty text.
OptionValue output_option(std::string& target);
// The name of a folder to write to; "-" is stored as it is.
OptionValue folder_option(std::string& target);
// A number, or "none".
OptionValue threshold_option(std::optional<double>& target, double low, double high,
                             std::string expected = "a number or none");
OptionValue threshold_option(std::optional<double>& target);
OptionValue threshold_option(std::optional<double>& target, const Bounds<double>& bounds,
                             const std::string& unit = "a number");
// "true" or "false", also capitalized as in Python.
OptionValue truth_option(bool& target);
// auto, cpu, vulkan, vulkan:N
OptionValue device_option(std::string& target);

// `expected` describes the range in errors. If empty, it is "a number from 1 to 8", for example.
template <typename Integer>
OptionValue integer_option(Integer& target, int64_t low, int64_t high, std::string expected = "");
template <typename Integer>
OptionValue integer_option(std::optional<Integer>& target, int64_t low, int64_t high);
// `unit`: "a number", "seconds"
template <typename Float>
OptionValue number_option(Float& target, double low, double high, std::string unit = "a number");
template <typename Float>
OptionValue number_option(std::optional<Float>& target, double low, double high,
                          std::string unit = "a number");
// One choice for each value.
template <typename T>
OptionValue choice_option(T& target, std::vector<std::pair<std::string, T>> choices);
// With the bounds that the library defines.
template <typename T>
OptionValue integer_option(T& target, const Bounds<uint32_t>& bounds) {
  return integer_option(target, bounds.low, bounds.high);
}
template <typename T>
OptionValue number_option(T& target, const Bounds<double>& bounds, std::string unit = "a number") {
  return number_option(target, bounds.low, bounds.high, std::move(unit));
}
OptionValue choice_option(std::string& target, std::vector<std::string> choices);

// These call `store` instead of writing to a target.
OptionValue integer_range(int64_t low, int64_t high, std::string expected,
                          std::function<void(int64_t)> store);
OptionValue number_range(double low, double high, const std::string& unit,
                         std::function<void(double)> store);
OptionValue one_of(std::vector<std::string> choices, std::function<void(size_t)> store);

template <typename Integer>
OptionValue integer_option(Integer& target, int64_t low, int64_t high, std::string expected) {
  OptionValue value = integer_range(low, high, std::move(expected), [&target](int64_t number) {
    target = static_cast<Integer>(number);
  });
  const auto now = static_cast<int64_t>(target);
  if (now >= low && now <= high) value.default_text = std::to_string(now);
  return value;
}

template <typename Integer>
OptionValue integer_option(std::optional<Integer>& target, int64_t low, int64_t high) {
  return integer_range(low, high, "",
                       [&target](int64_t number) { target = static_cast<Integer>(number); });
}

template <typename Float>
OptionValue number_option(Float& target, double low, double high, std::string unit) {
  OptionValue value = number_range(
      low, high, unit, [&target](double number) { target = static_cast<Float>(number); });
  if (target >= low && target <= high) value.default_text = decimal_text(target);
  return value;
}

template <typename Float>
OptionValue number_option(std::optional<Float>& target, double low, double high, std::string unit) {
  return number_range(low, high, unit,
                      [&target](double number) { target = static_cast<Float>(number); });
}

template <typename T>
OptionValue choice_option(T& target, std::vector<std::pair<std::string, T>> choices) {
  std::vector<std::string> names;
  std::string chosen;
  for (const auto& [name, value] : choices) {
    names.push_back(name);
    if (value == target) chosen = name;
  }
  OptionValue value = one_of(std::move(names), [&target, choices = std::move(choices)](size_t i) {
    target = choices[i].second;
  });
  value.default_text = std::move(chosen);
  return value;
}

}  // namespace vesper
