// What a product does with its sum: scale, bias, GELU, residual.
#ifndef VESPER_SHADERS_MATMUL_EPILOGUE_GLSL_
#define VESPER_SHADERS_MATMUL_EPILOGUE_GLSL_

const uint kHasBias = 1u;
const uint kHasResidual = 2u;
const uint kHasScale = 4u;

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

#endif
