#include "cli/terminal/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/terminal/program.h"
#include "cli/terminal/version.h"
#include "error/error.h"
#include "llm/conversion/mixture.h"
#include "session/bounds.h"

namespace vesper {
namespace {

// CLI11 splits an argument that begins with a bracket at its commas. This character, which no text
// has, is inserted before the bracket during parsing.
constexpr char kGuard = '\x01';

// openai-whisper's spelling is --beam_size.
std::string with_hyphens(std::string argument) {
  if (!argument.starts_with("--")) return argument;
  const size_t name_end = std::min(argument.find('='), argument.size());
  std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(name_end), '_',
               '-');
  return argument;
}

std::string guarded(std::string argument) {
  const size_t value = argument.starts_with("--") ? argument.find('=') + 1 : 0;
  if (value < argument.size() && argument[value] == '[') argument.insert(value, 1, kGuard);
  return argument;
}

std::string unguarded(std::string text) {
  if (!text.empty() && text.front() == kGuard) text.erase(0, 1);
  return text;
}

std::string joined(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

constexpr const char* kHelp = "--help";
constexpr const char* kHelpAll = "--help-all";
constexpr const char* kManual = "--man";
constexpr const char* kVersionOption = "--version";

OptionValue question_option() {
  return flag_option([] {});
}

}  // namespace

const std::string& Option::name() const {
  const auto is_long = [](const std::string& spelling) { return spelling.starts_with("--"); };
  const auto found = std::find_if(names.begin(), names.end(), is_long);
  return found == names.end() ? names.front() : *found;
}

std::string Option::full_help() const {
  std::string text = help;
  if (!value.choices.empty()) {
    const char* separator = ": ";
    for (const std::string& choice : value.choices) {
      text += separator + choice + (choice == value.default_text ? "\x1f(default)" : "");
      separator = ", ";
    }
  } else if (!value.default_text.empty()) {
    text += " (default:\x1f" + value.default_text + ")";
  }
  return text + (value.is_repeatable ? " (may be repeated)" : "");
}

Option& Option::add_details(std::string text) {
  details = std::move(text);
  return *this;
}

Option& Option::needs(std::string option) {
  needed = std::move(option);
  return *this;
}

Option& Option::sets(std::string name) {
  setting = std::move(name);
  return *this;
}

OptionTable::OptionTable(ProgramDescription program) : program_(std::move(program)) {
  section("Help");
  add("-h, --help", question_option(), "print this screen");
  add("--help-all", question_option(), "print all options");
  add_advanced("--man", question_option(), "print the manual page, for man -l -");
  add_advanced("--completions SHELL", choice_option(*shell_, {"bash", "zsh", "fish"}),
               "print a script that completes the options of " + program_.name + " in a shell")
      .add_details("For bash:\n  source <(" + program_.name + " --completions bash)");
  add("--version", question_option(), "print the version");
}

void OptionTable::section(std::string title, std::string text) {
  sections_.push_back({std::move(title), std::move(text)});
}

Option& OptionTable::add(std::string_view spelling, OptionValue value, std::string help) {
  Option option;
  while (spelling.starts_with('-')) {
    const size_t end = std::min(spelling.find_first_of(", "), spelling.size());
    option.names.emplace_back(spelling.substr(0, end));
    spelling.remove_prefix(std::min(spelling.find_first_not_of(", ", end), spelling.size()));
  }
  option.value_name = std::string(spelling);
  option.value = std::move(value);
  option.help = std::move(help);
  option.section = sections_.size() - 1;
  return options_.emplace_back(std::move(option));
}

Option& OptionTable::add_advanced(std::string_view spelling, OptionValue value, std::string help) {
  Option& option = add(spelling, std::move(value), std::move(help));
  option.is_advanced = true;
  return option;
}

void OptionTable::add_model_option(std::string& model, ModelKind kind, std::string help) {
  std::vector<std::string> names;
  for (const KnownModel& known : known_models()) {
    if (known.kind == kind) names.emplace_back(known.name);
  }
  OptionValue value = text_option(model).with_suggestions(std::move(names));
  value.completion = Completion::kFile;
  const bool has_default = model == kDefaultModel;
  if (has_default) value.default_text = "qwen3-1.7b or qwen3-0.6b";
  add("-m, --model NAME|PATH", std::move(value), std::move(help))
      .add_details(std::string("A known model is downloaded from Hugging Face if it is absent. ") +
                   (kind == ModelKind::kTextEncoder ? "hf://OWNER/NAME" : "hf://OWNER/NAME/FILE") +
                   " names any other there, whose files nothing vouches for." +
                   (has_default
                        ? " Without a name: qwen3-1.7b with at least 12 GiB of memory, else "
                          "qwen3-0.6b; if it cannot be fetched, an installed language model."
                        : ""));
}

void OptionTable::add_engine_options(std::string& device, std::string& compute, uint32_t& threads,
                                     bool& offline) {
  add("--device DEVICE", device_option(device), "the device")
      .add_details(
          "auto: a hardware GPU where there is one, else the CPU. vulkan:N: the GPU of that number "
          "in the list of inspect --devices.");
  add("--compute TYPE", choice_option(compute, {"auto", "f32", "f16", "bf16", "int8"}),
      "precision of products")
      .add_details("auto: the fastest precision of the device that keeps accuracy.");
  add("-t, --threads N", integer_option(threads, bounds::kThreads).with_default("one per core"),
      "threads of the CPU");
  add("--offline", flag_option(offline), "never download a model");
}

void OptionTable::add_weights_option(std::string& type) {
  std::vector<std::string> types;
  for (const std::string_view name : mixture_names()) types.emplace_back(name);
  add_advanced("--weights TYPE", choice_option(type, types).with_default("as in the files"),
               "quantize the weights while they are loaded")
      .add_details(
          "For less memory and more speed, at the cost of accuracy. The result is that of a file "
          "that inspect --convert writes with this --type.");
}

Option& OptionTable::add_kv_type_option(KvTypes& types) {
  OptionValue value = parsed_option(
      [&types](const std::string&, const std::string& text) { types = parse_kv_types(text); });
  value.choices = {"f16", "f32", "int8", "k=int8,v=int4"};
  value.default_text = kv_types_text(types);
  return add_advanced("--kv-type TYPE", std::move(value), "number format of the KV cache")
      .add_details(
          "Keys and values may differ: k=TYPE,v=TYPE. int8 takes half of the memory of f16.");
}

void OptionTable::add_positional(std::string name, std::vector<std::string>& values,
                                 Completion completion) {
  positional_name_ = std::move(name);
  positionals_ = &values;
  positional_completion_ = completion;
}

void OptionTable::exclude(std::vector<std::string> names) {
  exclusive_.push_back(std::move(names));
}

const Option& OptionTable::find(std::string_view name) const {
  for (const Option& option : options_) {
    if (std::find(option.names.begin(), option.names.end(), name) != option.names.end()) {
      return option;
    }
  }
  throw Error(ErrorKind::kInternal, "no option " + std::string(name) + " in the table");
}

bool OptionTable::is_given(std::string_view name) const { return find(name).is_given; }

void OptionTable::check_combinations() const {
  for (const Option& option : options_) {
    if (option.is_given && !option.needed.empty() && !is_given(option.needed)) {
      throw Error(ErrorKind::kUsage, option.name() + ": expected together with " + option.needed);
    }
  }
  for (const std::vector<std::string>& names : exclusive_) {
    std::vector<std::string> given;
    std::copy_if(names.begin(), names.end(), std::back_inserter(given),
                 [&](const std::string& name) { return is_given(name); });
    if (given.size() > 1) {
      throw Error(ErrorKind::kUsage,
                  names.size() == 2 ? "expected one of " + joined(names, " and ") + ", found both"
                                    : "expected one of " + joined(names, ", ") + ", found " +
                                          joined(given, " and "));
    }
  }
}

std::map<std::string, std::string> OptionTable::option_of_setting() const {
  std::map<std::string, std::string> options;
  for (const Option& option : options_) {
    if (!option.setting.empty()) options[option.setting] = option.name();
    for (const std::string& name : option.names) {
      if (!name.starts_with("--")) continue;
      std::string setting = name.substr(2);
      std::replace(setting.begin(), setting.end(), '-', ' ');
      options.emplace(setting, option.name());
    }
  }
  return options;
}

std::optional<std::string> OptionTable::parse(int argc, const char* const* argv) {
  name_settings(option_of_setting());
  CLI::App app;
  app.set_help_flag();
  for (Option& option : options_) {
    const std::string names = joined(option.names, ",");
    if (option.value.is_flag) {
      app.add_flag_callback(names, [&option] {
        option.is_given = true;
        option.value.store(option.name(), "");
      });
      continue;
    }
    CLI::Option* added = app.add_option_function<std::vector<std::string>>(
        names, [&option](const std::vector<std::string>& texts) {
          option.is_given = true;
          for (const std::string& text : texts) {
            option.value.store(option.name(), unguarded(text));
          }
        });
    added->expected(1)
        ->multi_option_policy(option.value.is_repeatable ? CLI::MultiOptionPolicy::TakeAll
                                                         : CLI::MultiOptionPolicy::TakeLast)
        ->allow_extra_args(false);
  }
  if (positionals_) {
    app.add_option_function<std::vector<std::string>>(
        positional_name_, [this](const std::vector<std::string>& texts) {
          for (const std::string& text : texts) positionals_->push_back(unguarded(text));
        });
  }
  std::vector<std::string> given;  // CLI11 takes them from the back
  const auto is_end = [](const char* argument) { return std::string_view(argument) == "--"; };
  const int n_options = static_cast<int>(std::find_if(argv, argv + argc, is_end) - argv);
  for (int i = argc - 1; i > 0; --i) {
    given.push_back(guarded(i < n_options ? with_hyphens(argv[i]) : argv[i]));
  }
  std::optional<Error> error;
  try {
    app.parse(std::move(given));
    read_settings();
    check_combinations();
  } catch (const CLI::ParseError& parse_error) {
    // The explanation may have a second line.
    const std::string text = parse_error.what();
    error.emplace(ErrorKind::kUsage,
                  text.substr(0, text.find('\n')) + " (see " + program_.name + " --help)");
  } catch (const Error& usage_error) {
    error = usage_error;
  }
  if (is_given(kHelpAll)) return help_all();
  if (is_given(kHelp)) return help();
  if (is_given(kManual)) return manual();
  if (is_given(kVersionOption)) {
    return program_.name + " " + std::string(kVersion) + " (Vesper)\n";
  }
  if (!shell_->empty()) return completions(*shell_);
  if (error) throw Error(*error);
  return std::nullopt;
}

}  // namespace vesper
