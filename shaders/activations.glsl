// Functions of one number: kActivation*.
#ifndef VESPER_SHADERS_ACTIVATIONS_GLSL_
#define VESPER_SHADERS_ACTIVATIONS_GLSL_

#include "kernel_params.h"

// erf by Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: absolute error at most
// 1.5e-7.
float gelu(float x) {
  float z = abs(x) * 0.70710678118654752;
  float t = 1.0 / (1.0 + 0.3275911 * z);
  float poly = t * (0.254829592 +
                    t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  float half_tail = 0.5 * poly * exp(-z * z);  // (1 - erf(z)) / 2
  return x * (x >= 0.0 ? 1.0 - half_tail : half_tail);
}

// exp stays within f32.
float sigmoid(float x) { return 1.0 / (1.0 + exp(min(-x, 88.0))); }

// `kind` is a specialization constant: one line remains.
float activate(uint kind, float x) {
  if (kind == kActivationGelu) return gelu(x);
  // x * (1 + tanh(y)) / 2 = x * sigmoid(2 y)
  if (kind == kActivationGeluTanh) {
    return x * sigmoid(2.0 * 0.7978845608 * (x + 0.044715 * x * x * x));
  }
  if (kind == kActivationSilu) return x * sigmoid(x);
  if (kind == kActivationRelu) return max(x, 0.0);
  if (kind == kActivationSigmoid) return sigmoid(x);
  return x;
}

#endif
