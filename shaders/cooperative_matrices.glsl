// Matrices that a subgroup has together: sums f32 [kSide, kSide] of products of A f16 [kSide, kInner]
// and B f16 [kInner, kSide]. In memory they are in vectors of 16 bytes, rows of A and of sums, columns
// of B. Starts, and pitches from one to the next, are in vectors.
//
// VESPER_MATRIX_MODEL: a model of them without the extension, of 8 x 8, for tests on any device with
// subgroups of 8 lanes or more. A lane has a row of sums, a row of A, and all of B. Included after
// kSide and kInner.
#ifndef VESPER_SHADERS_COOPERATIVE_MATRICES_GLSL_
#define VESPER_SHADERS_COOPERATIVE_MATRICES_GLSL_

#ifndef VESPER_MATRIX_MODEL
#extension GL_KHR_cooperative_matrix : require
#define MATRIX_A coopmat<float16_t, gl_ScopeSubgroup, kSide, kInner, gl_MatrixUseA>
#define MATRIX_B coopmat<float16_t, gl_ScopeSubgroup, kInner, kSide, gl_MatrixUseB>
#define MATRIX_SUM coopmat<float, gl_ScopeSubgroup, kSide, kSide, gl_MatrixUseAccumulator>
#define ZERO_SUM MATRIX_SUM(0.0)
#define LOAD_A(m, array, start, pitch) \
  coopMatLoad(m, array, start, pitch, gl_CooperativeMatrixLayoutRowMajor)
#define LOAD_B(m, array, start, pitch) \
  coopMatLoad(m, array, start, pitch, gl_CooperativeMatrixLayoutColumnMajor)
// From memory with rows of B.
#define LOAD_B_ROWS(m, array, start, pitch) \
  coopMatLoad(m, array, start, pitch, gl_CooperativeMatrixLayoutRowMajor)
#define STORE_SUM(m, array, start, pitch) \
  coopMatStore(m, array, start, pitch, gl_CooperativeMatrixLayoutRowMajor)
// In arrays of f32, with starts and pitches in f32.
#define LOAD_SUM_FLOATS(m, array, start, pitch) \
  coopMatLoad(m, array, start, pitch, gl_CooperativeMatrixLayoutRowMajor)
#define STORE_SUM_FLOATS(m, array, start, pitch) \
  coopMatStore(m, array, start, pitch, gl_CooperativeMatrixLayoutRowMajor)
#define MULTIPLY_ADD(a, b, sum) coopMatMulAdd(a, b, sum)
#define MULTIPLY_ELEMENTS(a, b) ((a) * (b))
// The lane's part of matrix B number `index`, 16 x 16, of an array of matrices in the order of
// llm/vulkan/kernels/weight_layout.h.
#define ORDERED_B uvec4
#define LOAD_ORDERED_B(part, array, index) part = array[(index) * 32 + gl_SubgroupInvocationID]
#define SET_B(m, part)                                                                        \
  {                                                                                           \
    f16vec2 first_ = unpackFloat2x16((part).x), second_ = unpackFloat2x16((part).y);          \
    f16vec2 third_ = unpackFloat2x16((part).z), fourth_ = unpackFloat2x16((part).w);          \
    m[0] = first_.x, m[1] = first_.y, m[2] = second_.x, m[3] = second_.y;                     \
    m[4] = third_.x, m[5] = third_.y, m[6] = fourth_.x, m[7] = fourth_.y;                     \
  }
// Before loops over matrices. A GPU keeps matrices in registers only if these are unrolled; the
// model's compiler would take minutes.
#define UNROLL_MATRICES [[unroll]]
#else
#define MATRIX_ROW float[8]
#define MATRIX_A MATRIX_ROW
#define MATRIX_SUM MATRIX_ROW
struct MATRIX_B {
  MATRIX_ROW columns[8];
};
#define ZERO_SUM MATRIX_ROW(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
#define OWN_ROW (gl_SubgroupInvocationID % 8)

MATRIX_ROW unpack_row(uvec4 halves) {
  vec4 low = unpack_half4(halves.xy), high = unpack_half4(halves.zw);
  return MATRIX_ROW(low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w);
}
MATRIX_ROW MULTIPLY_ADD(MATRIX_ROW a, MATRIX_B b, MATRIX_ROW sum) {
  [[unroll]] for (uint c = 0; c < 8; ++c) {
    [[unroll]] for (uint k = 0; k < 8; ++k) sum[c] += a[k] * b.columns[c][k];
  }
  return sum;
}
MATRIX_ROW MULTIPLY_ELEMENTS(MATRIX_ROW a, MATRIX_ROW b) {
  for (uint c = 0; c < 8; ++c) a[c] *= b[c];
  return a;
}
#define LOAD_A(m, array, start, pitch) m = unpack_row(array[(start) + OWN_ROW * (pitch)])
#define LOAD_B(m, array, start, pitch) \
  for (uint c_ = 0; c_ < 8; ++c_) m.columns[c_] = unpack_row(array[(start) + c_ * (pitch)]);
#define LOAD_B_ROWS(m, array, start, pitch)                            \
  for (uint k_ = 0; k_ < 8; ++k_) {                                    \
    MATRIX_ROW row_ = unpack_row(array[(start) + k_ * (pitch)]);       \
    for (uint c_ = 0; c_ < 8; ++c_) m.columns[c_][k_] = row_[c_];      \
  }
#define STORE_SUM(m, array, start, pitch)                                                    \
  if (gl_SubgroupInvocationID < 8) {                                                         \
    array[(start) + OWN_ROW * (pitch)] = floatBitsToUint(vec4(m[0], m[1], m[2], m[3]));      \
    array[(start) + OWN_ROW * (pitch) + 1] = floatBitsToUint(vec4(m[4], m[5], m[6], m[7]));  \
  }
#define ORDERED_B MATRIX_B
#define LOAD_ORDERED_B(part, array, index) LOAD_B(part, array, (index) * 8, 1)
#define SET_B(m, part) m = part
#define LOAD_SUM_FLOATS(m, array, start, pitch) \
  for (uint c_ = 0; c_ < 8; ++c_) m[c_] = array[(start) + OWN_ROW * (pitch) + c_];
#define STORE_SUM_FLOATS(m, array, start, pitch)                                         \
  if (gl_SubgroupInvocationID < 8) {                                                     \
    for (uint c_ = 0; c_ < 8; ++c_) array[(start) + OWN_ROW * (pitch) + c_] = m[c_];     \
  }
#define UNROLL_MATRICES [[dont_unroll]]
#endif

#endif
