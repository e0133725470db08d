// Options from environment variables and from a file in TOML, which CLI11 reads.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <utility>

#include "cli/terminal/options.h"
#include "error/error.h"

namespace vesper {
namespace {

constexpr std::string_view kConfig = "--config";

// Values of an option, as `origin` in messages has them.
void store_values(Option& option, const std::string& origin,
                  const std::vector<std::string>& values) {
  const OptionValue& value = option.value;
  if (!value.is_repeatable && values.size() != 1) {
    throw_usage(origin, "one value", std::to_string(values.size()));
  }
  if (!value.is_flag) {
    for (const std::string& text : values) value.store(origin, text);
  } else if (values.front() == "true" || values.front() == "1") {
    value.store(origin, "");
  } else if (values.front() == "false" || values.front() == "0") {
    return;  // as without the flag
  } else {
    throw_usage(origin, "true or false", values.front());
  }
  option.is_given = true;
}

std::vector<CLI::ConfigItem> items_of(const std::string& path) {
  std::ifstream file(path);
  std::error_code error(errno, std::generic_category());
  if (file) file.peek();  // a folder can be opened, but not read
  if (!file.good() && !file.eof()) {
    throw Error(ErrorKind::kUsage, "cannot read " + path + ": " + error.message());
  }
  try {
    return CLI::ConfigTOML().from_config(file);
  } catch (const CLI::Error& invalid) {
    throw Error(ErrorKind::kUsage, path + ": expected TOML: " + invalid.what());
  }
}

}  // namespace

std::string OptionTable::variable_of(const Option& option) const {
  std::string name = settings_prefix_ + option.name().substr(2);
  std::ranges::transform(name, name.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(c));
  });
  return name;
}

void OptionTable::add_settings(std::string prefix) {
  settings_prefix_ = std::move(prefix);
  OptionValue file = text_option(*settings_file_);
  file.completion = Completion::kFile;
  add(std::string(kConfig) + " FILE", std::move(file), "options from a file in TOML")
      .add_details(
          "A line for each option, by its long name: port = 8080, lazy = true, "
          "model = [\"base\", \"smollm2-135m\"]. Options of the command line count before those of "
          "the environment (" +
          settings_prefix_ + "PORT=8080, " + settings_prefix_ +
          "MODEL=base,smollm2-135m), and these before those of the file.");
  program_.environment.emplace_back(
      settings_prefix_ + "NAME",
      "The option --NAME: in capitals, with _ for -. Several values are separated by commas; a "
      "flag is true or false.");
}

void OptionTable::read_settings() {
  if (settings_prefix_.empty()) return;
  const auto is_setting = [](const Option& option) { return option.section > 0; };  // not the help
  for (Option& option : options_) {
    if (option.is_given || !is_setting(option)) continue;
    const std::string name = variable_of(option);
    const char* text = std::getenv(name.c_str());
    if (text == nullptr || *text == '\0') continue;
    store_values(
        option, name,
        option.value.is_repeatable ? split_at_commas(text) : std::vector<std::string>{text});
  }
  if (settings_file_->empty()) return;
  for (const CLI::ConfigItem& item : items_of(*settings_file_)) {
    const auto found = std::ranges::find_if(options_, [&](const Option& option) {
      return is_setting(option) && option.name() == "--" + item.name && option.name() != kConfig;
    });
    if (found == options_.end() || !item.parents.empty()) {
      // A section is an item with a parent.
      const std::string& name = item.parents.empty() ? item.name : item.parents.front();
      throw_usage(*settings_file_, "the long names of options", name.substr(0, 80));
    }
    if (!found->is_given) {
      store_values(*found, *settings_file_ + ": " + item.name, item.inputs);
    }
  }
}

}  // namespace vesper
