// attention: many rows by tiles of queries, few rows by parts of their contexts (attention_few.cc).
#include <bit>

#include "backend/gpu/kernels/attention_params.h"
#include "backend/gpu/steps/attention_few.h"
#include "backend/gpu/steps/segment_blocks.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {
namespace {

constexpr int kTileQueries = 32;  // Of kernels/attention_many.cc.

void record_many(Recorder& to, const AttentionArgs& args) {
  const int n_rows = to.rows_bound(), n_q = args.n_q_heads, n_kv = args.kv.n_kv_heads;
  const auto tile_heads = std::bit_ceil(static_cast<unsigned>(n_q / n_kv));
  const AttentionParams params = {.control = words_of(args.control),
                                  .q = args.q,
                                  .q_gate = args.q_gate,
                                  .pages = static_cast<std::uint16_t*>(args.kv.pages),
                                  .page_table = args.kv.page_table,
                                  .y = args.y,
                                  .table_stride = static_cast<unsigned>(args.kv.table_stride),
                                  .n_q_heads = static_cast<unsigned>(n_q),
                                  .n_kv_heads = static_cast<unsigned>(n_kv),
                                  .tile_heads = tile_heads};
  const std::size_t queries = times(n_rows, n_q * kHeadDim);
  const int tile_rows = kTileQueries / static_cast<int>(tile_heads);
  to.launch(to.mechanisms().matrix_units ? "attention_many" : "attention_many_plain", params,
            {blocks_bound(n_rows, tile_rows), static_cast<unsigned>(n_kv)}, 128,
            {range(args.control), range(args.q, queries), range(args.q_gate, 2 * queries),
             to.to_end_of_buffer(args.kv.pages), to.to_end_of_buffer(args.kv.page_table)},
            {range(args.y, queries)});
}

}  // namespace

void record_attention(Recorder& to, const AttentionArgs& args,
                      const AttentionPrepareArgs* prepare) {
  const int n_q = args.n_q_heads, n_kv = args.kv.n_kv_heads;
  LILY_CHECK(n_q % n_kv == 0 && n_q / n_kv <= kTileQueries);
  LILY_CHECK(prepare == nullptr || prepare->q == args.q);
  if (to.rows_bound() > kFewRows) return record_many(to, args);
  record_attention_few(to, args, prepare);
}

}  // namespace lily::gpu
