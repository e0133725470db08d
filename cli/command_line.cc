#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "error/error.h"

namespace vesper {
namespace {

// Stands before what begins with a bracket on its way through CLI11, which would take it for a list
// and cut it at its commas; no text has it.
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

struct CommandLine::Parser {
  CLI::App app;
  std::string program;
  std::vector<const bool*> questions;

  CLI::Option* add_list(const std::string& names, std::vector<std::string>& values) {
    return app.add_option_function<std::vector<std::string>>(
        names, [&values](const std::vector<std::string>& given) {
          for (const std::string& value : given) values.push_back(unguarded(value));
        });
  }
};

CommandLine::CommandLine(std::string program) : parser_(std::make_unique<Parser>()) {
  parser_->program = std::move(program);
  parser_->app.set_help_flag();
}

CommandLine::~CommandLine() = default;

void CommandLine::add_flag(const std::string& names, bool& is_given) {
  parser_->app.add_flag(names, is_given);
}

void CommandLine::add_flag(const std::string& names, const std::function<void()>& take) {
  parser_->app.add_flag_callback(names, take);
}

void CommandLine::add_question(const std::string& names, bool& is_given) {
  add_flag(names, is_given);
  parser_->questions.push_back(&is_given);
}

void CommandLine::add_value(const std::string& names,
                            const std::function<void(const std::string&)>& take) {
  parser_->app
      .add_option_function<std::string>(names,
                                        [take](const std::string& text) { take(unguarded(text)); })
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void CommandLine::add_value(const std::string& names, std::string& value) {
  add_value(names, [&value](const std::string& text) { value = text; });
}

void CommandLine::add_repeated(const std::string& names, std::vector<std::string>& values) {
  parser_->add_list(names, values)->allow_extra_args(false);
}

void CommandLine::add_texts(const std::string& name, std::vector<std::string>& texts) {
  parser_->add_list(name, texts);
}

void CommandLine::parse(int argc, const char* const* argv) {
  std::vector<std::string> given;  // CLI11 takes them from the back
  for (int i = argc - 1; i > 0; --i) given.push_back(guarded(argv[i]));
  try {
    parser_->app.parse(std::move(given));
  } catch (const CLI::ParseError& error) {
    // An error of ours in a function passes through; this is what CLI11 found itself.
    for (const bool* question : parser_->questions) {
      if (*question) return;
    }
    // It explains itself in up to two lines.
    const std::string text = error.what();
    throw Error(ErrorKind::kUsage,
                text.substr(0, text.find('\n')) + " (see " + parser_->program + " --help)");
  }
}

}  // namespace vesper
