// Which rows and which part of LinearParams a group works on. Included by kernels after
// dialect.h and pass.h.
#pragma once

#include "backend/gpu/kernels/pass.h"

// Rows that the launch has; 0 where their number is not its business.
FN uint linear_n_rows(CON LinearParams& a) {
  const uint all = a.head != 0 ? pass_head_rows(a.control) : pass_rows(a.control);
  const uint n = a.head == 0 ? all : (all > a.first ? u_min(all - a.first, 32u) : 0u);
  return n < a.least || n > a.most ? 0u : n;
}

// Row of x for row t of the launch.
FN uint linear_row(CON LinearParams& a, uint t) {
  return a.head == 0 ? t : pass_head_row(a.control, a.first + t);
}

// The part of block `block`, where a block holds `rows` rows of one part; block becomes the index
// in the part.
FN uint linear_part(CON LinearParams& a, uint rows, THR uint& block) {
  uint part = 0;
  while (part < 3) {
    const uint blocks = (a.parts[part].rows + rows - 1) / rows;
    if (block < blocks) break;
    block -= blocks;
    part++;
  }
  return part;
}
