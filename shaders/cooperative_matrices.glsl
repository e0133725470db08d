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
#define STORE_SUM(m, array, start, pitch) \
  coopMatStore(m, array, start, pitch, gl_CooperativeMatrixLayoutRowMajor)
#define MULTIPLY_ADD(a, b, sum) coopMatMulAdd(a, b, sum)
#else
struct MatrixRow {
  vec4 low, high;
};
struct MatrixColumns {
  MatrixRow columns[8];
};
#define MATRIX_A MatrixRow
#define MATRIX_B MatrixColumns
#define MATRIX_SUM MatrixRow
#define ZERO_SUM MatrixRow(vec4(0.0), vec4(0.0))
#define OWN_ROW (gl_SubgroupInvocationID % 8)

MatrixRow unpack_row(uvec4 halves) {
  return MatrixRow(unpack_half4(halves.xy), unpack_half4(halves.zw));
}
float multiply_rows(MatrixRow a, MatrixRow b) { return dot(a.low, b.low) + dot(a.high, b.high); }
MatrixRow MULTIPLY_ADD(MatrixRow a, MatrixColumns b, MatrixRow sum) {
  [[unroll]] for (uint c = 0; c < 4; ++c) {
    sum.low[c] += multiply_rows(a, b.columns[c]);
    sum.high[c] += multiply_rows(a, b.columns[c + 4]);
  }
  return sum;
}
#define LOAD_A(m, array, start, pitch) m = unpack_row(array[(start) + OWN_ROW * (pitch)])
#define LOAD_B(m, array, start, pitch)                                                  \
  [[unroll]] for (uint c_ = 0; c_ < 8; ++c_) {                                          \
    m.columns[c_] = unpack_row(array[(start) + c_ * (pitch)]);                           \
  }
#define STORE_SUM(m, array, start, pitch)                             \
  if (gl_SubgroupInvocationID < 8) {                                  \
    array[(start) + OWN_ROW * (pitch)] = floatBitsToUint(m.low);      \
    array[(start) + OWN_ROW * (pitch) + 1] = floatBitsToUint(m.high); \
  }
#endif

#endif
