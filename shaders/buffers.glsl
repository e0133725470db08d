// Device memory by address: typed views of one address, and loads that convert to f32.
//
// Push constants hold the operand addresses as `Address`. A kernel casts them to the view it needs.
// Absent operands have address 0 and no bit in kPresent; they are never read.
#ifndef VESPER_SHADERS_BUFFERS_GLSL_
#define VESPER_SHADERS_BUFFERS_GLSL_

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require

#include "kernel_params.h"

#ifndef BUFFER_ACCESS
#define BUFFER_ACCESS  // stage_order.glsl has its own
#endif

layout(buffer_reference, std430, buffer_reference_align = 4) BUFFER_ACCESS buffer Address { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) BUFFER_ACCESS buffer F32Buffer { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) BUFFER_ACCESS buffer F16Buffer { float16_t v[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) BUFFER_ACCESS buffer U16Buffer { uint16_t v[]; };
layout(buffer_reference, std430, buffer_reference_align = 1) BUFFER_ACCESS buffer I8Buffer { int8_t v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) BUFFER_ACCESS buffer I32Buffer { int v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) BUFFER_ACCESS buffer RowBuffer { Row v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) BUFFER_ACCESS buffer StateBuffer {
  SequenceState v[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) BUFFER_ACCESS buffer PartialBuffer {
  TokenPartial v[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) BUFFER_ACCESS buffer CandidateBuffer {
  TokenCandidate v[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) BUFFER_ACCESS buffer ExpertTileBuffer {
  ExpertTile v[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) BUFFER_ACCESS buffer BiasBuffer { TokenBias v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) BUFFER_ACCESS buffer U32Buffer { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) BUFFER_ACCESS buffer UVec2Buffer { uvec2 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) BUFFER_ACCESS buffer UVec4Buffer { uvec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) BUFFER_ACCESS buffer Vec4Buffer { vec4 v[]; };

// Counters of a dispatch, which its workgroups share (KernelPlan::n_counters).
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Counters { uint v[]; };

#define kMinusInfinity uintBitsToFloat(0xff800000u)
const float kLog2E = 1.4426950408889634;  // exp(x) = exp2(x * kLog2E)
const float kMostExponent = 80.0;  // exponentials of greater numbers may overflow

// Element i of a buffer of f32 or f16.
float load_float(Address address, uint i, uint dtype) {
  if (dtype == kDTypeF16) return float(F16Buffer(address).v[i]);
  return F32Buffer(address).v[i];
}

void store_float(Address address, uint i, uint dtype, float value) {
  if (dtype == kDTypeF16) {
    F16Buffer(address).v[i] = float16_t(value);
  } else {
    F32Buffer(address).v[i] = value;
  }
}

vec4 unpack_half4(uvec2 bits) { return vec4(unpackHalf2x16(bits.x), unpackHalf2x16(bits.y)); }
uvec2 pack_half4(vec4 x) { return uvec2(packHalf2x16(x.xy), packHalf2x16(x.zw)); }

// Four signed bytes, lowest first.
vec4 unpack_bytes(uint bits) {
  int b = int(bits);
  return vec4(bitfieldExtract(b, 0, 8), bitfieldExtract(b, 8, 8), bitfieldExtract(b, 16, 8),
              bitfieldExtract(b, 24, 8));
}

// Elements i to i + 3. i is a multiple of 4, and the address is 4 elements aligned.
vec4 load_vec4(Address address, uint i, uint dtype) {
  if (dtype == kDTypeF16) return unpack_half4(UVec2Buffer(address).v[i / 4]);
  return Vec4Buffer(address).v[i / 4];
}

// Stores elements i to i + 3, under the same conditions.
void store_vec4(Address address, uint i, uint dtype, vec4 x) {
  if (dtype == kDTypeF16) {
    UVec2Buffer(address).v[i / 4] = pack_half4(x);
  } else {
    Vec4Buffer(address).v[i / 4] = x;
  }
}

// Elements i to i + 3 of weights, which may also be int8 (without their scale).
vec4 load_weight4(Address address, uint i, uint format) {
  if (format == kDTypeI8) return unpack_bytes(U32Buffer(address).v[i / 4]);
  return load_vec4(address, i, format);
}

#endif
