#include "error/bounds.h"

#include <cmath>

#include "error/error.h"
#include "error/number_text.h"

namespace vesper {

void check_setting(bool condition, const std::string& setting, const std::string& expected) {
  if (!condition) throw Error(ErrorKind::kUsage, setting, "expected " + expected);
}

void check_bounds(const std::string& setting, Bounds<double> bounds, double value) {
  if (value >= bounds.low && value <= bounds.high) return;
  check_setting(false, setting,
                std::isinf(bounds.high)
                    ? formatted("%.7g or more, found %.7g", bounds.low, value)
                    : formatted("%.7g to %.7g, found %.7g", bounds.low, bounds.high, value));
}

}  // namespace vesper
