// The options of one program, as a table: the parser, --help, --help-all, the manual page (--man)
// and the completions of shells (--completions) all come from it.
//
//   OptionTable options({.name = "embed", ...});
//   options.section("Output");
//   options.add("-o, --output FILE", output_option(arguments.output), "write there");
//   options.add_positional("TEXT", arguments.texts);
//   if (const auto answer = options.parse(argc, argv)) return print(*answer);
//
// CLI11 does the parsing, in options.cc.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/terminal/option_values.h"
#include "session/known_models.h"

namespace vesper {

struct ProgramDescription {
  std::string name;                 // "embed"
  std::string summary;              // of the manual page: "turn texts into vectors"
  std::vector<std::string> usages;  // without the name: "[OPTION]... [TEXT]..."
  std::string description;          // sentences
  std::vector<std::string> examples;
  std::string exit_status = "0 done, 2 usage, 3 input, 4 model, 5 device, 6 output";
  // That the program reads, besides those that decide where models are.
  std::vector<std::pair<std::string, std::string>> environment = {};
};

// One row of the table.
struct Option {
  std::vector<std::string> names;  // "-o", "--output"
  std::string value_name;          // "FILE"; empty for a flag
  OptionValue value;
  std::string help;     // a phrase
  std::string details;  // sentences that --help-all and the manual page add; a line that begins
                        // with a space is kept as it is
  std::string needed;   // this option is an error without that one ("--vad")
  std::string setting;  // what the library calls it; empty: as the option, without hyphens
  bool is_advanced = false;  // --help leaves it out
  size_t section = 0;
  bool is_given = false;  // on the command line that was parsed

  // The name that messages use: the first long one.
  const std::string& name() const;
  // `help` with the choices and the default of the value; \x1f is a space where no line breaks.
  std::string full_help() const;

  Option& add_details(std::string text);
  Option& needs(std::string option);
  Option& sets(std::string name);
};

class OptionTable {
 public:
  explicit OptionTable(ProgramDescription program);
  OptionTable(OptionTable&&) = default;
  // -m/--model: a name of this kind or a path.
  void add_model_option(std::string& model, ModelKind kind, std::string help);
  // --device, --compute, -t/--threads and --offline, which the programs share.
  void add_engine_options(std::string& device, std::string& compute, uint32_t& threads,
                          bool& offline);

  // What follows belongs to this section. --help-all prints `text` below the title.
  void section(std::string title, std::string text = "");
  // `spelling` as in "-o, --output FILE". A value refers to its target, which outlives parse().
  // add_advanced: only --help-all and the manual page show it.
  Option& add(std::string_view spelling, OptionValue value, std::string help);
  Option& add_advanced(std::string_view spelling, OptionValue value, std::string help);
  // The arguments that belong to no option, in their order.
  void add_positional(std::string name, std::vector<std::string>& values,
                      Completion completion = Completion::kNone);
  // Of these options at most one may be given.
  void exclude(std::vector<std::string> names);

  // The text to print where the command line asks for help, the version, ...: such a command line
  // may be wrong otherwise. Throws Error(kUsage) naming the option, what it expects and what was
  // found.
  std::optional<std::string> parse(int argc, const char* const* argv);

  bool is_given(std::string_view name) const;

  // At most 80 columns. help() has what most people need, on one screen.
  std::string help() const;
  std::string help_all() const;
  // For groff -man.
  std::string manual() const;
  // `shell`: bash, zsh or fish.
  std::string completions(const std::string& shell) const;

  const std::deque<Option>& options() const { return options_; }

 private:
  struct Section {
    std::string title, text;
  };

  const Option& find(std::string_view name) const;
  void check_combinations() const;
  std::map<std::string, std::string> option_of_setting() const;
  std::string listing(bool with_advanced) const;
  std::string bash_completions() const;
  std::string zsh_completions() const;
  std::string fish_completions() const;

  ProgramDescription program_;
  std::vector<Section> sections_;
  std::deque<Option> options_;
  std::vector<std::vector<std::string>> exclusive_;
  std::string positional_name_;
  std::vector<std::string>* positionals_ = nullptr;
  Completion positional_completion_ = Completion::kNone;
  std::unique_ptr<std::string> shell_ = std::make_unique<std::string>();  // of --completions
};

}  // namespace vesper
