// The range of a setting's values. The library checks it and the programs show it in their help.
#pragma once

#include <string>

namespace vesper {

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
