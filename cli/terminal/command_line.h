// The options of one program. CLI11 is behind it, in one file, as its templates compile slowly.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vesper {

class CommandLine {
 public:
  // `program`: its name, for messages and for --version, which every program answers.
  explicit CommandLine(std::string program);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // `names` as in "-m,--model". What is referred to outlives parse().
  void add_flag(const std::string& names, bool& is_given);
  void add_flag(const std::string& names, const std::function<void()>& take);
  // A flag such as --help: a command line that has it is answered by `answer`, and may be wrong
  // otherwise. Of several the one that was added first counts.
  void add_question(const std::string& names, std::string answer);
  // An option with a value, given to `take`. One that is repeated counts as it stands last.
  void add_value(const std::string& names, const std::function<void(const std::string&)>& take);
  void add_value(const std::string& names, std::string& value);
  // An option that may be repeated, each time with one value.
  void add_repeated(const std::string& names, std::vector<std::string>& values);
  // The arguments that belong to no option, in their order.
  void add_texts(const std::string& name, std::vector<std::string>& texts);

  // The answer if the command line asks a question. Throws Error(kUsage) that
  // points to --help, and what the options' functions throw.
  std::optional<std::string> parse(int argc, const char* const* argv);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace vesper
