// copy_pages: copies the used rows of a page to another page. A thread has 16 bits of the keys and
// of the values. Grid: (blocks of a page's 16-bit units, sequences).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kKeyDtype = 0;
layout(constant_id = 2) const uint kValueDtype = 0;

layout(push_constant) uniform Push {
  Address k_pages, v_pages, states;
  CopyPagesParams p;
};

// Copies unit i of a page if it is part of the first copy_rows rows of a head.
void copy_unit(Address pages, uint dtype, SequenceState state, uint i) {
  uint head_units = kv_head_bytes(dtype, p.page_rows, p.head_dim) / 2;
  uint page_units = p.n_kv_heads * head_units;
  if (i >= page_units) return;
  uint row_units = kv_row_bytes(dtype, p.head_dim) / 2;
  uint scale_units = kv_scale_bytes(dtype, p.head_dim) / 2;
  uint in_head = i % head_units, scales = p.page_rows * row_units;
  bool is_used = in_head < scales ? in_head < state.copy_rows * row_units
                                  : in_head - scales < state.copy_rows * scale_units;
  if (!is_used) return;
  F16Buffer(pages).v[uint(state.copy_to) * page_units + i] =
      F16Buffer(pages).v[uint(state.copy_from) * page_units + i];
}

void main() {
  uint i = gl_GlobalInvocationID.x;
  SequenceState state = StateBuffer(states).v[gl_WorkGroupID.y];
  copy_unit(k_pages, kKeyDtype, state, i);
  copy_unit(v_pages, kValueDtype, state, i);
}
