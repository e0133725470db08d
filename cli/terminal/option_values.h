// What the options of a command line are made of: values read from text, each error naming the
// option, what it expects and what it was given.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
