// embed: rows of the embedding, with position. Grid: (blocks of d_model, rows).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
#include "weights.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kWeightFormat = 0;
layout(constant_id = 2) const uint kPresent = 0;  // 1: position, 2: scale

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
    value = load_weight(embedding, uint(row.token) * padded_columns(p.d_model) + column,
                        kWeightFormat) *
            p.scale;
    if ((kPresent & 2u) != 0) value *= F32Buffer(scale).v[row.token];
    if ((kPresent & 1u) != 0) {
      value += F32Buffer(position).v[uint(row.position) * p.d_model + column];
    }
  }
  F32Buffer(out_).v[r * p.d_model + column] = value;
}
