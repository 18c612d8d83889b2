// Every kernel once: the table of kernels (table.cc), the loaders of CUDA and Metal and the tests
// are made from this list. A line: X(kernel, file) with the file that holds its KERNEL.
#pragma once

#define LILY_GPU_KERNELS(X)                                 \
  X(gdn_prepare, "gdn_prepare.cc")                          \
  X(gdn_scan_few, "gdn_scan.cc")                            \
  X(gdn_scan_many, "gdn_scan.cc")                           \
  X(gdn_scan_blocks, "gdn_scan.cc")                         \
  X(gdn_norm, "gdn_norm.cc")                                \
  X(attention_prepare, "attention_prepare.cc")              \
  X(attention_few_4, "attention_few.cc")                    \
  X(attention_few_8, "attention_few.cc")                    \
  X(attention_few_merge, "attention_few.cc")                \
  X(attention_many, "attention_many.cc")                    \
  X(attention_many_plain, "attention_many.cc")              \
  X(embed, "embed.cc")                                      \
  X(linear_few_norm_1, "linear_few.cc")                     \
  X(linear_few_norm_2, "linear_few.cc")                     \
  X(linear_few_norm_4, "linear_few.cc")                     \
  X(linear_few_norm_8, "linear_few.cc")                     \
  X(linear_few_add_1, "linear_few.cc")                      \
  X(linear_few_add_2, "linear_few.cc")                      \
  X(linear_few_add_4, "linear_few.cc")                      \
  X(linear_few_add_8, "linear_few.cc")                      \
  X(linear_tile_norm, "linear_tile.cc")                     \
  X(linear_tile_add, "linear_tile.cc")                      \
  X(linear_tile_norm_plain, "linear_tile.cc")               \
  X(linear_tile_add_plain, "linear_tile.cc")                \
  X(linear_tile_norm_large, "linear_tile_large.cc")         \
  X(linear_tile_add_large, "linear_tile_large.cc")          \
  X(linear_tile_norm_large_plain, "linear_tile_large.cc")   \
  X(linear_tile_add_large_plain, "linear_tile_large.cc")    \
  X(dequantise, "dequantise.cc")                            \
  X(route_choose, "route_choose.cc")                        \
  X(experts_few_up, "experts_few.cc")                       \
  X(experts_few_down, "experts_few.cc")                     \
  X(experts_sort, "experts_sort.cc")                        \
  X(experts_tile_up, "experts_tile.cc")                     \
  X(experts_tile_down, "experts_tile.cc")                   \
  X(experts_tile_up_plain, "experts_tile.cc")               \
  X(experts_tile_down_plain, "experts_tile.cc")             \
  X(experts_tile_up_large, "experts_tile_large.cc")         \
  X(experts_tile_down_large, "experts_tile_large.cc")       \
  X(experts_tile_up_large_plain, "experts_tile_large.cc")   \
  X(experts_tile_down_large_plain, "experts_tile_large.cc") \
  X(experts_combine, "experts_combine.cc")                  \
  X(head_states, "head_states.cc")                          \
  X(vocabulary_stats, "vocabulary.cc")                      \
  X(choose_stats, "vocabulary.cc")                          \
  X(choose_rows, "choose.cc")                               \
  X(score_rows, "score.cc")                                 \
  X(copy_words, "copy.cc")                                  \
  X(copy_bytes, "copy.cc")
