// The values of options: how each is read from text, checked and stored. An error names the option,
// what it expects and what it was given.
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

// Each of these throws Error(kUsage) for text that is not what it reads.

// A finite decimal number in [low, high], which `expected` describes.
double parse_number(const std::string& option, const std::string& text, double low, double high,
                    const std::string& expected);
int64_t parse_integer(const std::string& option, const std::string& text, int64_t low, int64_t high,
                      const std::string& expected);
// "a,b,c"; the empty text is one empty part.
std::vector<std::string> split_at_commas(const std::string& list);
// Token ids in decimal with spaces or a comma between each two, a pair of brackets around them
// allowed; none of empty text. Throws Error(kInput) for anything else.
std::vector<int32_t> parse_token_ids(std::string_view text);
// "2.4", "0.0001": as few digits as tell the number from others.
std::string decimal_text(double value);

// What a shell offers for a value, besides its choices.
enum class Completion { kNone, kFile, kFolder };

struct OptionValue {
  // Stores the text, or throws Error(kUsage). A flag is given an empty text.
  std::function<void(const std::string& option, const std::string& text)> store;
  bool is_flag = false;
  bool is_repeatable = false;            // each time with one value
  bool is_list = false;                  // choices may be joined by commas
  std::vector<std::string> choices;      // all that it takes, or (`suggestions`) some of it
  std::vector<std::string> suggestions;  // for shells only
  std::string range;                     // "1 to 1024"
  std::string default_text;
  Completion completion = Completion::kNone;

  OptionValue with_default(std::string text) const;
  OptionValue with_suggestions(std::vector<std::string> texts) const;
};

// Defaults are read from the target when the row is made.

OptionValue flag_option(bool& target);
OptionValue flag_option(std::function<void()> action);
OptionValue text_option(std::string& target);
OptionValue text_option(std::optional<std::string>& target);
OptionValue repeated_option(std::vector<std::string>& target);
// Anything else: `store` reads and checks it.
OptionValue parsed_option(std::function<void(const std::string& option, const std::string& text)>);
// The name of a file that is read, or "-" where `takes_stdin`; not empty.
template <class Text>  // std::string, or an optional one
OptionValue file_option(Text& target, bool takes_stdin = false);
// The name of a file that is written, where "-" (standard output) becomes an empty text.
OptionValue output_option(std::string& target);
// The name of a folder that is written to; "-" is kept.
OptionValue folder_option(std::string& target);
// A number, or "none".
OptionValue threshold_option(std::optional<double>& target, double low, double high,
                             std::string expected = "a number or none");
OptionValue threshold_option(std::optional<double>& target);
OptionValue threshold_option(std::optional<double>& target, const Bounds<double>& bounds,
                             const std::string& unit = "a number");
// "true" or "false", also as Python writes them.
OptionValue truth_option(bool& target);
// auto, cpu, vulkan, vulkan:N
OptionValue device_option(std::string& target);

// `expected` describes the numbers in an error: "a number from 1 to 8" where it is empty.
template <typename Integer>
OptionValue integer_option(Integer& target, int64_t low, int64_t high, std::string expected = "");
template <typename Integer>
OptionValue integer_option(std::optional<Integer>& target, int64_t low, int64_t high);
// `unit`: "a number", "seconds"
template <typename Float>
OptionValue number_option(Float& target, double low, double high, std::string unit = "a number");
// A word for each value.
template <typename T>
OptionValue choice_option(T& target, std::vector<std::pair<std::string, T>> choices);
// The same with bounds of the library.
template <typename T>
OptionValue integer_option(T& target, const Bounds<uint32_t>& bounds) {
  return integer_option(target, bounds.low, bounds.high);
}
template <typename T>
OptionValue number_option(T& target, const Bounds<double>& bounds, std::string unit = "a number") {
  return number_option(target, bounds.low, bounds.high, std::move(unit));
}
OptionValue choice_option(std::string& target, std::vector<std::string> choices);

// The same without the target.
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
