// vesper::Error: the one exception type of the project.
//
// Thrown for anything that the caller could not have checked beforehand. Programs catch it once,
// print `what()` and exit with `exit_status`; the C API catches it too. what() is one line: control
// characters, which names from files may have, become escapes (\n, \x1b). A message says what was
// expected, what was found, and where. A wrong setting is named in plain words, "beam
// size"; a program prints the name of its option instead (cli/terminal/program).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace vesper {

enum class ErrorKind {
  kUsage,     // a wrong option or argument
  kInput,     // an audio or text input that cannot be read
  kModel,     // a model that is missing, damaged or not of a known kind
  kDevice,    // no such device, or the device failed or ran out of memory
  kOutput,    // a result that cannot be written
  kStopped,   // the caller asked to stop
  kInternal,  // a broken promise of our own code
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message);
  // what() is "SETTING: MESSAGE".
  Error(ErrorKind kind, const std::string& setting, const std::string& message);

  ErrorKind kind() const { return kind_; }
  // The wrong setting, named as in the options structs with spaces: "beam size". Empty if the error
  // is not about a setting.
  const std::string& setting() const { return setting_; }

 private:
  ErrorKind kind_;
  std::string setting_;
};

// The text with control characters as escapes (\n, \x1b), as what() has it.
std::string escaped_controls(std::string_view text);

// Throws Error(kStopped) "stopped by the caller": a callback or a cancellation ended the work.
[[noreturn]] void throw_stopped();

// The status a program ends with after an error of this kind: 2 usage, 3 input, 4 model, 5 device,
// 6 output, 7 stopped, 70 internal (the number sysexits.h gives to software errors).
int exit_status(ErrorKind kind);

}  // namespace vesper
