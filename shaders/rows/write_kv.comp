// write_kv: writes keys and values to the pages of their sequence. Grid: (blocks of columns, rows).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kInDtype = 0;
layout(constant_id = 2) const uint kKvDtype = 0;

layout(push_constant) uniform Push {
  Address k_pages, v_pages, k_in, v_in, rows, page_table;
  WriteKvParams p;
};

void main() {
  uint column = gl_GlobalInvocationID.x;
  uint r = gl_WorkGroupID.y;
  if (column >= p.n_kv_heads * p.head_dim) return;
  uint sequence, position;
  if (p.rows_per_sequence != 0) {
    sequence = r / p.rows_per_sequence;
    position = r % p.rows_per_sequence;
  } else {
    Row row = RowBuffer(rows).v[r];
    if (row.sequence < 0) return;
    sequence = uint(row.sequence);
    position = uint(row.position);
  }
  uint page = uint(I32Buffer(page_table).v[sequence * p.pages_per_sequence + position / p.page_rows]);
  uint head = column / p.head_dim;
  uint to = ((page * p.n_kv_heads + head) * p.page_rows + position % p.page_rows) * p.head_dim +
            column % p.head_dim;
  uint from = r * p.in_row_stride + column;
  store_float(k_pages, to, kKvDtype, load_float(k_in, from, kInDtype));
  store_float(v_pages, to, kKvDtype, load_float(v_in, from, kInDtype));
}
