#include "error/bounds.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "error/error.h"

namespace vesper {

void check_setting(bool condition, const std::string& setting, const std::string& expected) {
  if (!condition) throw Error(ErrorKind::kUsage, setting, "expected " + expected);
}

void check_bounds(const std::string& setting, Bounds<double> bounds, double value) {
  if (value >= bounds.low && value <= bounds.high) return;
  std::array<char, 128> text{};
  if (std::isinf(bounds.high)) {
    std::snprintf(text.data(), text.size(), "%.7g or more, found %.7g", bounds.low, value);
  } else {
    std::snprintf(text.data(), text.size(), "%.7g to %.7g, found %.7g", bounds.low, bounds.high,
                  value);
  }
  check_setting(false, setting, text.data());
}

}  // namespace vesper
