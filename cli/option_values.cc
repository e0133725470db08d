#include "cli/option_values.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>
#include <utility>

#include "error/error.h"

namespace vesper {
namespace {

// Stands before what begins with a bracket on its way through CLI11; no text has it.
constexpr char kGuard = '\x01';

std::string guarded(std::string argument) {
  const size_t value = argument.starts_with("--") ? argument.find('=') + 1 : 0;
  if (value < argument.size() && argument[value] == '[') argument.insert(value, 1, kGuard);
  return argument;
}

std::string unguarded(std::string text) {
  if (!text.empty() && text.front() == kGuard) text.erase(0, 1);
  return text;
}

}  // namespace

void throw_usage(const std::string& option, const std::string& expected, const std::string& found) {
  throw Error(ErrorKind::kUsage, option + ": expected " + expected + ", found \"" + found + "\"");
}

void add_value(CLI::App& app, const std::string& names,
               const std::function<void(const std::string&)>& take) {
  app.add_option_function<std::string>(names,
                                       [take](const std::string& text) { take(unguarded(text)); })
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void add_texts(CLI::App& app, const std::string& name, std::vector<std::string>& texts) {
  app.add_option_function<std::vector<std::string>>(
      name, [&texts](const std::vector<std::string>& given) {
        for (const std::string& text : given) texts.push_back(unguarded(text));
      });
}

void add_repeated(CLI::App& app, const std::string& names, std::vector<std::string>& values) {
  app.add_option_function<std::vector<std::string>>(
         names,
         [&values](const std::vector<std::string>& given) {
           for (const std::string& value : given) values.push_back(unguarded(value));
         })
      ->allow_extra_args(false);
}

void parse_command_line(CLI::App& app, int argc, const char* const* argv) {
  std::vector<std::string> given;  // CLI11 takes them from the back
  for (int i = argc - 1; i > 0; --i) given.push_back(guarded(argv[i]));
  app.parse(std::move(given));
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
