// vesper::Error: the one exception type of the project.
//
// Thrown by every folder for anything that its caller could not have checked beforehand, caught
// once in each program (which prints `what()` on one line and exits with `exit_status`) and at the
// C API. A message says what was expected, what was found, and where.
#pragma once

#include <stdexcept>
#include <string>

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
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// The status a program ends with after an error of this kind: 2 usage, 3 input, 4 model, 5 device,
// 6 output, 7 stopped, 70 internal (the number sysexits.h gives to software errors).
int exit_status(ErrorKind kind);

}  // namespace vesper
