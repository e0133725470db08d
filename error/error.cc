#include "error/error.h"

namespace vesper {

std::string escaped_controls(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      line += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      line += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      line += c;
    }
  }
  return line;
}

Error::Error(ErrorKind kind, const std::string& message)
    : std::runtime_error(escaped_controls(message)), kind_(kind) {}

Error::Error(ErrorKind kind, const std::string& setting, const std::string& message)
    : Error(kind, setting + ": " + message) {
  setting_ = setting;
}

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
