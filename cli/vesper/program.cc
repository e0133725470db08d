// vesper COMMAND [ARGUMENT]...: runs the program of that name, for systems where another package
// owns a name such as /usr/bin/inspect.
#include "cli/terminal/program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/terminal/options.h"
#include "cli/terminal/output.h"
#include "error/error.h"

namespace vesper {
namespace {

constexpr const char* kProgram = "vesper";

std::vector<Program> commands() { return {kPrograms.begin(), std::prev(kPrograms.end())}; }

OptionTable vesper_options() {
  return OptionTable({
      .name = kProgram,
      .usages = {"COMMAND [ARGUMENT]...", "help COMMAND"},
      .description = "Runs a command of Vesper. Each command is also a program of that name.",
      .examples = {"vesper transcribe -m tiny.en talk.wav", "vesper help transcribe",
                   "vesper inspect --devices"},
      .exit_status = "that of the command, 2 usage",
      .commands = commands(),
  });
}

// In ../libexec/vesper or beside this program.
std::filesystem::path find_command(const std::string& name) {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::filesystem::path libexec = here.parent_path() / "libexec/vesper";
  for (const std::filesystem::path& folder : {libexec, here}) {
    if (access((folder / name).c_str(), X_OK) == 0) return folder / name;
  }
  throw Error(ErrorKind::kInput, name + ": expected a program in " + libexec.string() + " or " +
                                     here.string() + ", found none");
}

// Returns only by an exception.
[[noreturn]] void run_command(const std::string& name, std::vector<char*> arguments) {
  std::string names;
  bool is_known = false;
  for (const Program& command : commands()) {
    names += (names.empty() ? "" : ", ") + std::string(command.name);
    is_known |= command.name == name;
  }
  if (!is_known) {
    throw Error(ErrorKind::kUsage,
                "expected a command (" + names + "), found \"" + name + "\" (see vesper --help)");
  }
  const std::filesystem::path path = find_command(name);
  arguments.push_back(nullptr);
  execv(path.c_str(), arguments.data());
  throw Error(ErrorKind::kInput, path.string() + ": cannot be run: " + std::strerror(errno));
}

int run(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "help";
  if (first.starts_with('-')) {
    const auto answer = vesper_options().parse(argc, argv);
    if (!answer) throw Error(ErrorKind::kUsage, "expected a command (see vesper --help)");
    write_to_stdout(*answer);
    return 0;
  }
  if (first != "help") run_command(first, {argv + 1, argv + argc});
  if (argc > 3) {
    throw Error(ErrorKind::kUsage, "help: expected one command, found " + std::to_string(argc - 2));
  }
  if (argc == 3) {
    std::string help = "--help";
    run_command(argv[2], {argv[2], help.data()});
  }
  write_to_stdout(vesper_options().help());
  return 0;
}

}  // namespace
}  // namespace vesper

int main(int argc, char** argv) {
  return vesper::run_program(vesper::kProgram, argc, argv, vesper::run);
}
