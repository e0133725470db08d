// embed: token embedding plus position embedding. Grid: (blocks of d_model, rows).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
#include "weights.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kWeightFormat = 0;
layout(constant_id = 2) const uint kPresent = 0;  // 1: position, 2: scale per row
#include "quantized.glsl"

layout(push_constant) uniform Push {
  Address out_, rows, embedding, position, scale;
  EmbedParams p;
};

void main() {
  uint column = gl_GlobalInvocationID.x;
  uint r = gl_WorkGroupID.y;
  if (column >= p.d_model) return;
  Row row = RowBuffer(rows).v[r];
  float value = 0.0;
  if (row.sequence >= 0) {
    uint token = uint(row.token);
    if (kInBlocks) {
      uvec2 codes = load_codes(embedding, token, p.d_model, column & ~7u);
      vec2 group = load_group_scale(scale, token, p.d_model, column);
      value = code_values(codes[column / 4u % 2u])[column % 4u] * group.x + group.y;
    } else {
      value = load_weight(embedding, token * padded_columns(p.d_model) + column, kWeightFormat);
    }
    value *= p.scale;
    if ((kPresent & 2u) != 0) value *= F32Buffer(scale).v[row.token];
    if ((kPresent & 1u) != 0) {
      value += F32Buffer(position).v[uint(row.position) * p.d_model + column];
    }
  }
  F32Buffer(out_).v[r * p.d_model + column] = value;
}
