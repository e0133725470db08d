// Writes which elements of a kSide x kSide matrix a lane has: of a matrix of sums, of a matrix A, and
// of a transposed matrix B. Element (row, column) is row * kSide + column. Read by
// llm/vulkan/kernels/matrix_layout.cc.
// Grid: (1).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kSide = 16;

layout(push_constant) uniform Push {
  Address out_;
};

shared float sums[kSide * kSide];
shared float16_t halves[kSide * kSide];

void main() {
  uint lane = gl_SubgroupInvocationID;
  for (uint i = lane; i < kSide * kSide; i += gl_SubgroupSize) {
    sums[i] = float(i);
    halves[i] = float16_t(i);
  }
  barrier();
  coopmat<float, gl_ScopeSubgroup, kSide, kSide, gl_MatrixUseAccumulator> sum;
  coopmat<float16_t, gl_ScopeSubgroup, kSide, kSide, gl_MatrixUseA> a;
  coopmat<float16_t, gl_ScopeSubgroup, kSide, kSide, gl_MatrixUseB> b;
  coopMatLoad(sum, sums, 0, kSide, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(a, halves, 0, kSide, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(b, halves, 0, kSide, gl_CooperativeMatrixLayoutColumnMajor);
  uint n = kSide * kSide / gl_SubgroupSize;
  if (sum.length() != n || a.length() != n || b.length() != n) return;
  for (uint i = 0; i < n; ++i) {
    F32Buffer(out_).v[lane * n + i] = sum[i];
    F32Buffer(out_).v[kSide * kSide + lane * n + i] = float(a[i]);
    F32Buffer(out_).v[2 * kSide * kSide + lane * n + i] = float(b[i]);
  }
}
