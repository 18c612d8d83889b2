// PassControl (backend/args.h) as kernels read it: 32-bit words in device memory. Included after
// dialect.h. The same words for all threads of a group: what follows from them is uniform.
#pragma once

// Where its members lie, in words; steps/segment_blocks.h holds these to args.h.
KERNEL_CONST uint kPassSegments = 4, kPassSegmentWords = 8;
KERNEL_CONST uint kPassTokens = 516, kPassHeadRows = 2564;

// A segment, and of it the rows first .. first + n - 1.
struct PassBlock {
  int first_row, n_rows, position, sequence, state_in, state_out, snapshots;
  uint first, n;
};

FN uint pass_rows(DEV const int* control) {
  return (uint)control[0];
}
FN uint pass_segments(DEV const int* control) {
  return (uint)control[1];
}
FN uint pass_head_rows(DEV const int* control) {
  return (uint)control[2];
}
FN uint pass_token(DEV const int* control, uint row) {
  return (uint)control[kPassTokens + row];
}
// The row of the pass that is head row `index`.
FN uint pass_head_row(DEV const int* control, uint index) {
  return (uint)control[kPassHeadRows + index];
}
// All of a segment; no rows where there is none of that index.
FN void pass_segment(DEV const int* control, uint index, THR PassBlock& block) {
  const bool exists = index < pass_segments(control);
  DEV const int* words = control + kPassSegments + (exists ? index : 0) * kPassSegmentWords;
  block.first_row = words[0];
  block.n_rows = exists ? words[1] : 0;
  block.position = words[2];
  block.sequence = words[3];
  block.state_in = exists ? words[4] : -1;
  block.state_out = words[5];
  block.snapshots = words[6];
  block.first = 0;
  block.n = (uint)block.n_rows;
}
// Each segment cut into blocks of `size` rows, block number `index` of all of them; n = 0 where
// there are fewer.
FN void pass_block(DEV const int* control, uint index, uint size, THR PassBlock& block) {
  const uint n_segments = pass_segments(control);
  uint i = 0;
  for (; i < n_segments; i++) {
    const uint n_rows = (uint)control[kPassSegments + i * kPassSegmentWords + 1];
    const uint n_blocks = (n_rows + size - 1) / size;
    if (index < n_blocks) break;
    index -= n_blocks;
  }
  pass_segment(control, i, block);
  block.first = index * size;
  block.n = block.n > block.first ? u_min(size, block.n - block.first) : 0;
}
// Row `row` of the pass; n = 0 where no segment holds it.
FN void pass_row(DEV const int* control, uint row, THR PassBlock& block) {
  const uint n_segments = pass_segments(control);
  uint i = 0;
  for (; i < n_segments; i++) {
    DEV const int* words = control + kPassSegments + i * kPassSegmentWords;
    if ((int)row >= words[0] && (int)row < words[0] + words[1]) break;
  }
  pass_segment(control, i, block);
  block.first = row - (uint)block.first_row;
  block.n = i < n_segments ? 1 : 0;
}
