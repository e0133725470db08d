// copy_pages: copies the used rows of a page to another page. Grid: (blocks of a page's elements,
// sequences).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kKvDtype = 0;

layout(push_constant) uniform Push {
  Address k_pages, v_pages, states;
  CopyPagesParams p;
};

void main() {
  uint i = gl_GlobalInvocationID.x;
  SequenceState state = StateBuffer(states).v[gl_WorkGroupID.y];
  uint head_numbers = p.page_rows * p.head_dim;
  uint page_numbers = p.n_kv_heads * head_numbers;
  if (i >= page_numbers || i % head_numbers >= state.copy_rows * p.head_dim) return;
  uint from = uint(state.copy_from) * page_numbers + i;
  uint to = uint(state.copy_to) * page_numbers + i;
  store_float(k_pages, to, kKvDtype, load_float(k_pages, from, kKvDtype));
  store_float(v_pages, to, kKvDtype, load_float(v_pages, from, kKvDtype));
}
