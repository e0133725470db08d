// paged_attention on matrix units, over quantized keys or values.
#version 460
#extension GL_GOOGLE_include_directive : require
#define VESPER_QUANTIZED_KV
#include "attention/paged_attention_tile.glsl"
