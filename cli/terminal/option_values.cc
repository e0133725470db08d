#include "cli/terminal/option_values.h"

#include <algorithm>
#include <cmath>

#include "error/error.h"
#include "error/number_text.h"

namespace vesper {
namespace {

bool is_none(const std::string& text) { return text == "none" || text == "None"; }

std::string text_of(const Bounds<double>& bounds) {
  return "from " + decimal_text(bounds.low) +
         (std::isinf(bounds.high) ? " on" : " to " + decimal_text(bounds.high));
}

// A path; not empty, and "-" only where `takes_dash`.
OptionValue path_option(bool takes_dash, std::string expected, Completion completion,
                        std::function<void(const std::string& path)> store) {
  OptionValue value = parsed_option([=](const std::string& option, const std::string& text) {
    if (text.empty() || (text == "-" && !takes_dash)) throw_usage(option, expected, text);
    store(text);
  });
  value.completion = completion;
  return value;
}

}  // namespace

void throw_usage(const std::string& option, const std::string& expected, const std::string& found) {
  throw Error(ErrorKind::kUsage, option + ": expected " + expected + ", found \"" + found + "\"");
}

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

std::string decimal_text(double value) { return formatted("%.7g", value); }

OptionValue OptionValue::with_default(std::string text) const {
  OptionValue value = *this;
  value.default_text = std::move(text);
  return value;
}

OptionValue OptionValue::with_suggestions(std::vector<std::string> texts) const {
  OptionValue value = *this;
  value.suggestions = std::move(texts);
  return value;
}

OptionValue flag_option(std::function<void()> action) {
  OptionValue value;
  value.is_flag = true;
  value.store = [action = std::move(action)](const std::string&, const std::string&) { action(); };
  return value;
}

OptionValue flag_option(bool& target) {
  return flag_option([&target] { target = true; });
}

OptionValue parsed_option(
    std::function<void(const std::string& option, const std::string& text)> store) {
  OptionValue value;
  value.store = std::move(store);
  return value;
}

OptionValue text_option(std::string& target) {
  return parsed_option([&target](const std::string&, const std::string& text) { target = text; })
      .with_default(target);
}

OptionValue text_option(std::optional<std::string>& target) {
  return parsed_option([&target](const std::string&, const std::string& text) { target = text; });
}

OptionValue repeated_option(std::vector<std::string>& target) {
  OptionValue value = parsed_option(
      [&target](const std::string&, const std::string& text) { target.push_back(text); });
  value.is_repeatable = true;
  return value;
}

template <class Text>
OptionValue file_option(Text& target, bool takes_stdin) {
  return path_option(takes_stdin, takes_stdin ? "a file, or -" : "the name of a file",
                     Completion::kFile, [&target](const std::string& path) { target = path; });
}
template OptionValue file_option(std::string&, bool);
template OptionValue file_option(std::optional<std::string>&, bool);

OptionValue output_option(std::string& target) {
  return path_option(true, "a file", Completion::kFile,
                     [&target](const std::string& path) { target = path == "-" ? "" : path; });
}

OptionValue folder_option(std::string& target) {
  return path_option(true, "a folder", Completion::kFolder,
                     [&target](const std::string& path) { target = path; });
}

OptionValue threshold_option(std::optional<double>& target, double low, double high,
                             std::string expected) {
  OptionValue value = parsed_option([&target, low, high, expected = std::move(expected)](
                                        const std::string& option, const std::string& text) {
    target.reset();
    if (!is_none(text)) target = parse_number(option, text, low, high, expected);
  });
  value.default_text = target ? decimal_text(*target) : "none";
  return value;
}

OptionValue threshold_option(std::optional<double>& target) {
  constexpr double kAny = std::numeric_limits<double>::max();
  return threshold_option(target, -kAny, kAny);
}

OptionValue threshold_option(std::optional<double>& target, const Bounds<double>& bounds,
                             const std::string& unit) {
  return threshold_option(target, bounds.low, bounds.high,
                          unit + " " + text_of(bounds) + ", or none");
}

OptionValue truth_option(bool& target) {
  OptionValue value = parsed_option([&target](const std::string& option, const std::string& text) {
    target = text == "true" || text == "True";
    if (!target && text != "false" && text != "False") throw_usage(option, "true or false", text);
  });
  value.choices = {"true", "false"};
  value.default_text = target ? "true" : "false";
  return value;
}

OptionValue device_option(std::string& target) {
  OptionValue value = parsed_option([&target](const std::string& option, const std::string& text) {
    constexpr std::string_view kNumbered = "vulkan:";
    if (text.starts_with(kNumbered)) {
      parse_integer(option, text.substr(kNumbered.size()), 0, 255, "vulkan:N with N from 0 to 255");
    } else if (text != "auto" && text != "cpu" && text != "vulkan") {
      throw_usage(option, "one of auto, cpu, vulkan, vulkan:N", text);
    }
    target = text;
  });
  value.choices = {"auto", "cpu", "vulkan", "vulkan:N"};
  value.default_text = target;
  return value;
}

OptionValue integer_range(int64_t low, int64_t high, std::string expected,
                          std::function<void(int64_t)> store) {
  if (expected.empty()) {
    expected = "a number from " + std::to_string(low) + " to " + std::to_string(high);
  }
  OptionValue value =
      parsed_option([low, high, expected = std::move(expected), store = std::move(store)](
                        const std::string& option, const std::string& text) {
        store(parse_integer(option, text, low, high, expected));
      });
  constexpr int64_t kMany = 1'000'000'000;
  if (high < kMany) value.range = std::to_string(low) + " to " + std::to_string(high);
  return value;
}

OptionValue number_range(double low, double high, const std::string& unit,
                         std::function<void(double)> store) {
  const std::string expected = unit + " " + text_of({low, high});
  OptionValue value = parsed_option([low, high, expected, store = std::move(store)](
                                        const std::string& option, const std::string& text) {
    store(parse_number(option, text, low, high, expected));
  });
  if (std::isfinite(high)) value.range = decimal_text(low) + " to " + decimal_text(high);
  return value;
}

OptionValue one_of(std::vector<std::string> choices, std::function<void(size_t)> store) {
  OptionValue value = parsed_option(
      [choices, store = std::move(store)](const std::string& option, const std::string& text) {
        const auto chosen = std::find(choices.begin(), choices.end(), text);
        if (chosen != choices.end()) return store(static_cast<size_t>(chosen - choices.begin()));
        std::string expected;
        for (const std::string& choice : choices)
          expected += (expected.empty() ? "" : ", ") + choice;
        throw_usage(option, choices.size() == 1 ? expected : "one of " + expected, text);
      });
  value.choices = std::move(choices);
  return value;
}

OptionValue choice_option(std::string& target, std::vector<std::string> choices) {
  OptionValue value = one_of(choices, [&target, choices](size_t i) { target = choices[i]; });
  value.default_text = target;
  return value;
}

std::vector<int32_t> parse_token_ids(std::string_view text) {
  constexpr std::string_view kSpace = " \t";
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* end = at + text.size();
  const auto fail = [&] {
    throw Error(ErrorKind::kInput, "expected token ids with spaces or commas between, found \"" +
                                       std::string(text.substr(0, 60)) + "\"");
  };
  const auto is_space = [&](char c) { return kSpace.find(c) != std::string_view::npos; };
  const auto trim = [&] {
    while (at != end && is_space(*at)) ++at;
    while (at != end && is_space(end[-1])) --end;
  };
  trim();
  if (at != end && *at == '[') {
    if (end[-1] != ']') fail();
    ++at, --end;
    trim();
  }
  while (at != end) {
    int32_t id = 0;
    const auto [after, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0) fail();
    ids.push_back(id);
    if (after == end) break;
    at = after;
    while (is_space(*at)) ++at;  // ends before `end`, which a number or a comma stands before
    if (*at == ',') {
      ++at;
      while (at != end && is_space(*at)) ++at;
      if (at == end) fail();  // a comma is between two
    } else if (at == after) {
      fail();
    }
  }
  return ids;
}

}  // namespace vesper
