// Epilogue of a product: scale, bias, activation, residual.
#ifndef VESPER_SHADERS_MATMUL_EPILOGUE_GLSL_
#define VESPER_SHADERS_MATMUL_EPILOGUE_GLSL_

#include "activations.glsl"

const uint kHasBias = 1u;
const uint kHasResidual = 2u;
const uint kHasScale = 4u;
const uint kHasRmsNorm = 8u;
const uint kHasLayerNorm = 16u;

#endif
