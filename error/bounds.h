// Checks of settings, and the ranges of their values, which the programs show in their help.
#pragma once

#include <string>

namespace vesper {

// Throws Error(kUsage), naming the setting and what was expected, unless the condition holds.
void check_setting(bool condition, const std::string& setting, const std::string& expected);

// The range of valid values, both ends included.
template <class T>
struct Bounds {
  T low, high;
};

// Throws Error(kUsage), naming the setting, if `value` is out of bounds or NaN.
void check_bounds(const std::string& setting, Bounds<double> bounds, double value);
template <class T>
void check_bounds(const std::string& setting, const Bounds<T>& bounds, T value) {
  check_bounds(setting, Bounds<double>{double(bounds.low), double(bounds.high)}, double(value));
}

}  // namespace vesper
