// What the options of a command line are made of: values read from text, each error naming the
// option, what it expects and what it was given.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace vesper {

// Throws Error(kUsage).
[[noreturn]] void throw_usage(const std::string& option, const std::string& expected,
                              const std::string& found);

// Adds an option with a value, given to `take`. One that is repeated counts as it stands last.
void add_value(CLI::App& app, const std::string& names,
               const std::function<void(const std::string& text)>& take);

// Adds the arguments that belong to no option, in their order.
void add_texts(CLI::App& app, const std::string& name, std::vector<std::string>& texts);
// Adds an option that may be repeated, each time with one value.
void add_repeated(CLI::App& app, const std::string& names, std::vector<std::string>& values);

// Takes the command line through the options that were added as above. CLI11 by itself would take a
// value in brackets for a list and cut it at its commas. Throws CLI::ParseError.
void parse_command_line(CLI::App& app, int argc, const char* const* argv);

// Each of these throws Error(kUsage) for text that is not what it reads.

// A finite decimal number in [low, high], which `expected` describes.
double parse_number(const std::string& option, const std::string& text, double low, double high,
                    const std::string& expected);
int64_t parse_integer(const std::string& option, const std::string& text, int64_t low, int64_t high,
                      const std::string& expected);
// The same, expecting "a number from LOW to HIGH".
int64_t parse_integer(const std::string& option, const std::string& text, int64_t low,
                      int64_t high);
// A number, or "none".
std::optional<double> parse_threshold(const std::string& option, const std::string& text);
// "true" or "false", as Python writes them or in lower case.
bool parse_truth(const std::string& option, const std::string& text);
std::string parse_choice(const std::string& option, const std::string& text,
                         std::initializer_list<std::string_view> choices);
// "a,b,c"; the empty text is one empty part.
std::vector<std::string> split_at_commas(const std::string& list);

}  // namespace vesper
