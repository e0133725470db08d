// The activations of kernel_params.h in double precision.
#pragma once

#include <cmath>
#include <cstdint>

#include "shaders/kernel_params.h"

namespace vesper::test {

inline constexpr uint32_t kAllActivations[] = {kActivationNone,     kActivationGelu,
                                               kActivationGeluTanh, kActivationSilu,
                                               kActivationRelu,     kActivationSigmoid};

inline double plain_activation(uint32_t activation, double x) {
  switch (activation) {
    case kActivationGelu:
      return x * (1 + std::erf(x / std::sqrt(2.0))) / 2;
    case kActivationGeluTanh:
      return x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x))) / 2;
    case kActivationSilu:
      return x / (1 + std::exp(-x));
    case kActivationRelu:
      return x > 0 ? x : 0;
    case kActivationSigmoid:
      return 1 / (1 + std::exp(-x));
    default:
      return x;
  }
}

}  // namespace vesper::test
