// write_kv: writes keys and values to the pages of their sequence. A thread has kColumns columns:
// one, or four if keys or values are quantized. Grid: (blocks of columns, rows).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "kv_pages.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kInDtype = 0;
layout(constant_id = 2) const uint kKeyDtype = 0;
layout(constant_id = 3) const uint kValueDtype = 0;
layout(constant_id = 4) const uint kColumns = 1;

layout(push_constant) uniform Push {
  Address k_pages, v_pages, k_in, v_in, rows, page_table;
  WriteKvParams p;
};

// Stores the columns from `column` on of row r as row `index` of their head's part of a page.
void store_columns(Address pages, uint dtype, Address in_, uint page, uint index, uint r,
                   uint column) {
  uint head = page * p.n_kv_heads + column / p.head_dim, d = column % p.head_dim;
  uint from = r * p.in_row_stride + column;
  if (kv_is_quantized(dtype)) {
    vec4 x;
    for (uint i = 0; i < 4; ++i) x[i] = load_float(in_, from + i, kInDtype);
    store_quantized_kv4(pages, dtype, head, index, p.page_rows, p.head_dim, d, x);
    return;
  }
  uint to = (head * p.page_rows + index) * p.head_dim + d;
  for (uint i = 0; i < kColumns; ++i) {
    store_float(pages, to + i, dtype, load_float(in_, from + i, kInDtype));
  }
}

void main() {
  uint column = gl_GlobalInvocationID.x * kColumns;
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
  store_columns(k_pages, kKeyDtype, k_in, page, position % p.page_rows, r, column);
  store_columns(v_pages, kValueDtype, v_in, page, position % p.page_rows, r, column);
}
