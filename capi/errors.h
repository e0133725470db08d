// Errors of the C API: what a thread's failed call left behind, and the wall that no exception
// passes.
//
// In: work that may throw. Out: a vesper_status, and the message for vesper_last_error(). Every
// function of the C API runs its work in guarded().
#pragma once

#include <cxxabi.h>
#include <vesper/base.h>

#include <array>
#include <string>

#include "error/error.h"

namespace vesper::capi {

// An error about an argument of a function. guarded() puts the name of the function before it.
class ArgumentError : public Error {
 public:
  // `expected_and_found`: "expected an open Whisper model, found NULL".
  ArgumentError(const std::string& argument, const std::string& expected_and_found)
      : Error(ErrorKind::kUsage, argument + ": " + expected_and_found) {}
};

// The zero-terminated message of an error, which needs no memory when there is none left. A longer
// message is cut before a character of UTF-8.
using ErrorMessage = std::array<char, 4096>;

// Makes the exception that is being handled the error of this thread and, if `object` is open, of
// that object, and returns its status.
vesper_status fail(const char* function, const void* object) noexcept;

// Runs `work` for a function of the C API. `object`: what the function was called for, or null.
// Throws only what ends a thread (pthread_exit and pthread_cancel unwind its stack).
template <class Work>
vesper_status guarded(const char* function, const void* object, const Work& work) {
  try {
    work();
    return VESPER_OK;
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return fail(function, object);
  }
}

// The same for functions that return a value: `otherwise` if the work failed.
template <class Result, class Work>
Result guarded_value(const char* function, const void* object, Result otherwise, const Work& work) {
  Result result = otherwise;
  if (guarded(function, object, [&] { result = work(); }) != VESPER_OK) return otherwise;
  return result;
}

// Checks a pointer argument. Throws ArgumentError if it is NULL.
template <class T>
T* required(const char* argument, T* pointer) {
  if (!pointer) throw ArgumentError(argument, "expected a pointer, found NULL");
  return pointer;
}

// A copy for the caller, to be freed by vesper_string_free().
char* copied_string(const std::string& text);

}  // namespace vesper::capi
