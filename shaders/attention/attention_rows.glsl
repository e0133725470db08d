// Maps workgroups of attention to rows, and rows to their visible keys.
#ifndef VESPER_SHADERS_ATTENTION_ROWS_GLSL_
#define VESPER_SHADERS_ATTENTION_ROWS_GLSL_

struct AttentionBlock {
  uint sequence_start;  // in all rows
  uint n;               // rows of the sequence, 0: nothing to do
  uint first_row;       // of the block, in the sequence
};

// Block w of packed sequences, with block_rows rows. The blocks of sequence s begin at starts[s] /
// block_rows + s, which leaves some blocks empty.
AttentionBlock packed_block(Address starts, uint n_sequences, uint w, uint block_rows) {
  uint s = 0, end = n_sequences;  // the last sequence whose blocks begin at or before w
  while (end - s > 1) {
    uint middle = (s + end) / 2;
    if (U32Buffer(starts).v[middle] / block_rows + middle <= w) {
      s = middle;
    } else {
      end = middle;
    }
  }
  AttentionBlock block;
  block.sequence_start = U32Buffer(starts).v[s];
  block.n = U32Buffer(starts).v[s + 1] - block.sequence_start;
  uint first_block = block.sequence_start / block_rows + s;
  block.first_row = (w - first_block) * block_rows;
  if (w < first_block || block.first_row >= block.n) block.n = 0;
  return block;
}

// The rows [x, y) that are visible to `row` of a sequence of n rows.
uvec2 visible_rows(uint row, uint n, uint causal, uint window) {
  uvec2 rows = uvec2(0, n);
  if (window != 0) {
    rows.x = row > window ? row - window : 0;
    rows.y = min(n, row + window + 1);
  }
  if (causal != 0) rows.y = min(rows.y, row + 1);
  return rows;
}

#endif
