// The options of one program as a table, the source of the parser, --help, --help-all, the manual
// page (--man) and shell completions (--completions).
//
//   OptionTable options({.name = "embed", ...});
//   options.section("Output");
//   options.add("-o, --output FILE", output_option(arguments.output), "write there");
//   options.add_positional("TEXT", arguments.texts);
//   if (const auto answer = options.parse(argc, argv)) return print(*answer);
//
// CLI11 does the parsing, in options.cc.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/terminal/option_values.h"
#include "llm/dtype/kv_types.h"
#include "session/models/known_models.h"

namespace vesper {

// The programs with the summaries of their manual pages; all but the last are commands of `vesper`.
struct Program {
  std::string_view name, summary;
};
inline constexpr std::array<Program, 6> kPrograms = {{
    {"embed", "turn texts into vectors"},
    {"generate", "answer a prompt with a language model"},
    {"inspect", "describe a model and the memory it needs"},
    {"serve", "answer requests of OpenAI's API over HTTP"},
    {"transcribe", "turn speech into text and subtitles"},
    {"vesper", "turn speech into text and text into text"},
}};

struct ProgramDescription {
  std::string name;                 // "embed"
  std::vector<std::string> usages;  // without the name: "[OPTION]... [TEXT]..."
  std::string description;          // sentences
  std::vector<std::string> examples;
  std::string exit_status = "0 done, 2 usage, 3 input, 4 model, 5 device, 6 output";
  // Environment variables of the program, besides those for the folders of models.
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::vector<Program> commands = {};  // the first argument, for the help and completions
};

// One row of the table.
struct Option {
  std::vector<std::string> names;  // "-o", "--output"
  std::string value_name;          // "FILE"; empty for a flag
  OptionValue value;
  std::string help;     // a phrase
  std::string details;  // sentences for --help-all and the manual page; a line that begins with a
                        // space is not wrapped
  std::string needed;   // this option requires that one ("--vad")
  std::string setting;  // the library's name of the setting; empty: the option without hyphens
  bool is_advanced = false;  // not in --help
  size_t section = 0;
  bool is_given = false;  // on the command line that was parsed, or by add_settings()

  // The name in messages: the first long one.
  const std::string& name() const;
  // `help` with the choices and the default; \x1f is a non-breaking space.
  std::string full_help() const;

  Option& add_details(std::string text);
  Option& needs(std::string option);
  Option& sets(std::string name);
};

class OptionTable {
 public:
  explicit OptionTable(ProgramDescription program);
  OptionTable(OptionTable&&) = default;
  // -m/--model: a model name of this kind, or a path.
  void add_model_option(std::string& model, ModelKind kind, std::string help);
  // The shared options --device, --compute, -t/--threads and --offline.
  void add_engine_options(std::string& device, std::string& compute, uint32_t& threads,
                          bool& offline);
  // --weights: the weight format that a model is quantized to while it is loaded.
  void add_weights_option(std::string& type);
  // --kv-type
  Option& add_kv_type_option(KvTypes& types);

  // --config FILE, and environment variables that begin with `prefix` ("VESPER_SERVE_"): other
  // sources of the options. The command line has precedence, then the environment.
  void add_settings(std::string prefix);

  // Starts a section. --help-all prints `text` below the title.
  void section(std::string title, std::string text = "");
  // `spelling` is such as "-o, --output FILE". The target of a value must outlive parse().
  // add_advanced: only in --help-all and the manual page.
  Option& add(std::string_view spelling, OptionValue value, std::string help);
  Option& add_advanced(std::string_view spelling, OptionValue value, std::string help);
  // Arguments that belong to no option, in order.
  void add_positional(std::string name, std::vector<std::string>& values,
                      Completion completion = Completion::kNone);
  // At most one of these options may be given.
  void exclude(std::vector<std::string> names);

  // The text to print if the command line asks for help, the version, ...; the rest of such a
  // command line is not checked. Throws Error(kUsage) naming the option, what it expects and what
  // was found.
  std::optional<std::string> parse(int argc, const char* const* argv);

  bool is_given(std::string_view name) const;

  // At most 80 columns. help() fits one screen.
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
  // Stores what the command line does not have.
  void read_settings();
  std::string variable_of(const Option& option) const;  // "VESPER_SERVE_PORT"
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
  std::string settings_prefix_;  // empty: only the command line
  std::unique_ptr<std::string> settings_file_ = std::make_unique<std::string>();
  std::unique_ptr<std::string> shell_ = std::make_unique<std::string>();  // of --completions
};

}  // namespace vesper
