// The bounds of a setting's value, for the check in the library and the help of the programs.
#pragma once

#include <string>

namespace vesper {

// The values that a setting may have, both ends included.
template <class T>
struct Bounds {
  T low, high;
};

// Throws Error(kUsage) naming the setting if `value` is outside the bounds or not a number.
void check_bounds(const std::string& setting, Bounds<double> bounds, double value);
template <class T>
void check_bounds(const std::string& setting, const Bounds<T>& bounds, T value) {
  check_bounds(setting, Bounds<double>{double(bounds.low), double(bounds.high)}, double(value));
}

}  // namespace vesper
