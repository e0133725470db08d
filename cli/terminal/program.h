// Shared by all programs: open standard streams, removal of unfinished files on signals, and one
// line on stderr and an exit status for errors.
#pragma once

#include <exception>
#include <map>
#include <string>
#include <string_view>

namespace vesper {

// Thrown if the reader of standard output is gone: the program ends silently, as if killed by
// SIGPIPE. Not a std::exception, so that only run_program() catches it.
struct OutputPipeClosed {};

// Thrown after Ctrl-C has ended the work and partial results are kept: the program ends as if
// killed by SIGINT, which also ends a shell loop. Not a std::exception.
struct Interrupted {};

// Prints "program: message" on stderr as one line.
void print_error(std::string_view program, std::string_view message);

// The same for an error of one file: "program: file: message".
void print_error(std::string_view program, std::string_view file, std::string_view message);

// Lets failure_of() replace the library's names of settings by options: {"beam size",
// "--beam-size"}. Called by OptionTable::parse.
void name_settings(std::map<std::string, std::string> option_of_setting);

// The exit status and message of any exception.
struct Failure {
  int status = 0;
  std::string message;
};
Failure failure_of(const std::exception& error);

// Text that is safe for a terminal: valid UTF-8, '?' for control characters.
std::string printable(std::string_view text);

// What main() does: runs `body` and returns its status. An exception is printed and sets the
// status. A signal that ends the program removes unfinished files (see signals.h). A plain
// function, because there may be no memory for anything else.
int run_program(const char* program, int argc, char** argv, int (*body)(int argc, char** argv));

}  // namespace vesper
