// The base of checks of kernels: operands on a device, and random numbers.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "llm/table/device.h"

namespace vesper::test {

class KernelCheck {
 protected:
  KernelCheck(Device& device, uint32_t seed) : device_(device), engine_(seed) {}

  // Uniform numbers between -spread and spread.
  std::vector<float> random(size_t n, float spread = 1.0f) {
    std::uniform_real_distribution<float> distribution(-spread, spread);
    std::vector<float> numbers(n);
    for (float& number : numbers) number = distribution(engine_);
    return numbers;
  }
  template <class T>
  Operand store(const std::vector<T>& values) {
    const Operand buffer = device_.allocate(values.size() * sizeof(T), "test");
    device_.write(buffer, values.data());
    return buffer;
  }
  // A buffer of n NaNs.
  Operand poisoned(size_t n) { return store(std::vector<float>(n, NAN)); }
  template <class T>
  std::vector<T> fetch(const Operand& from) {
    std::vector<T> values(from.bytes / sizeof(T));
    device_.read(from, values.data());
    return values;
  }

  Device& device_;
  std::mt19937 engine_;
};

}  // namespace vesper::test
