// What every program does around its own work: standard streams that are open, signals that leave
// no half-written file behind, and one line on stderr with the right exit status for an error.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace vesper {

// Thrown where the reader of standard output has gone: the program ends as quietly as one that
// SIGPIPE kills. Not a std::exception, so that only run_program() catches it.
struct OutputPipeClosed {};

// Thrown where Ctrl-C has ended the work, and what there is of it is kept: the program ends as one
// that SIGINT kills, which stops a shell's loop too. Likewise.
struct Interrupted {};

// Prints "program: message" on stderr, in one line, whatever the message holds.
void print_error(std::string_view program, std::string_view message);

// The same for an error while working on one file: "program: file: message".
void print_error(std::string_view program, std::string_view file, std::string_view message);

// From now on failure_of() names the library's settings by the program's options: {"beam size",
// "--beam-size"}. Called by OptionTable::parse.
void name_settings(std::map<std::string, std::string> option_of_setting);

// The exit status and the message of whatever was thrown, vesper::Error or not.
struct Failure {
  int status = 0;
  std::string message;
};
Failure failure_of(const std::exception& error);

// Text that is safe to show on a terminal: valid UTF-8, with '?' for control characters.
std::string printable(std::string_view text);

// Runs the body and returns its status; what it throws is printed and becomes the status. Removes
// unfinished files (see signals.h) when a signal ends the program.
int run_program(std::string_view program, const std::function<int()>& body);

}  // namespace vesper
