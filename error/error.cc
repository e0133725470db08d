#include "error/error.h"

namespace vesper {

void throw_stopped() { throw Error(ErrorKind::kStopped, "stopped by the caller"); }

int exit_status(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return 2;
    case ErrorKind::kInput:
      return 3;
    case ErrorKind::kModel:
      return 4;
    case ErrorKind::kDevice:
      return 5;
    case ErrorKind::kOutput:
      return 6;
    case ErrorKind::kStopped:
      return 7;
    case ErrorKind::kInternal:
      break;
  }
  return 70;
}

}  // namespace vesper
