// paged_attention on matrix units, over f16. The loads of quantized keys are in a shader of their own:
// their mere presence makes prompts of 8,192 tokens 2.5 times slower on an H100.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "attention/paged_attention_tile.glsl"
