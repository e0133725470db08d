// GELU, exact and by tanh, and the logistic function.
#ifndef VESPER_SHADERS_GELU_GLSL_
#define VESPER_SHADERS_GELU_GLSL_

// Exact GELU, x * (1 + erf(x / sqrt 2)) / 2. erf by Abramowitz and Stegun, Handbook of Mathematical
// Functions, 7.1.26: absolute error at most 1.5e-7.
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

// x * (1 + tanh(y)) / 2 = x * sigmoid(2 y)
float gelu_tanh(float x) { return x * sigmoid(2.0 * 0.7978845608 * (x + 0.044715 * x * x * x)); }

#endif
