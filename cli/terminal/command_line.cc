#include "cli/terminal/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <utility>

#include "cli/terminal/version.h"
#include "error/error.h"

namespace vesper {
namespace {

// Stands before what begins with a bracket on its way through CLI11, which would take it for a list
// and cut it at its commas; no text has it.
constexpr char kGuard = '\x01';

// Who comes from openai-whisper writes --beam_size for --beam-size.
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

}  // namespace

struct CommandLine::Parser {
  CLI::App app;
  std::string program;
  // A flag and what answers it.
  struct Question {
    bool is_given = false;
    std::string answer;
  };
  std::deque<Question> questions;  // CLI11 points to its elements

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

void CommandLine::add_question(const std::string& names, std::string answer) {
  Parser::Question& question = parser_->questions.emplace_back(false, std::move(answer));
  add_flag(names, question.is_given);
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

std::optional<std::string> CommandLine::parse(int argc, const char* const* argv) {
  add_question("--version", parser_->program + " " + std::string(kVersion) + " (Vesper)\n");
  const auto answer = [&]() -> std::optional<std::string> {
    for (const Parser::Question& question : parser_->questions) {
      if (question.is_given) return question.answer;
    }
    return std::nullopt;
  };
  std::vector<std::string> given;  // CLI11 takes them from the back
  const auto is_end = [](const char* argument) { return std::string_view(argument) == "--"; };
  const int n_options = static_cast<int>(std::find_if(argv, argv + argc, is_end) - argv);
  for (int i = argc - 1; i > 0; --i) {
    given.push_back(guarded(i < n_options ? with_hyphens(argv[i]) : argv[i]));
  }
  try {
    parser_->app.parse(std::move(given));
  } catch (const CLI::ParseError& error) {
    // An error of ours in a function passes through; this is what CLI11 found itself.
    if (const auto asked = answer()) return asked;
    // It explains itself in up to two lines.
    const std::string text = error.what();
    throw Error(ErrorKind::kUsage,
                text.substr(0, text.find('\n')) + " (see " + parser_->program + " --help)");
  }
  return answer();
}

}  // namespace vesper
