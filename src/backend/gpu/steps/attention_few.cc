// Attention of few rows as two launches: parts of each row's context, then their merge.
#include "backend/gpu/steps/attention_few.h"

#include <algorithm>
#include <limits>

#include "backend/gpu/kernels/attention_few_params.h"
#include "backend/gpu/steps/segment_blocks.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {
namespace {

constexpr int kBlockPages = 8;  // 512 positions, what a part has where contexts begin to be blocks.

// Parts of one head that scratch holds.
int parts_held(const ModelSpec& spec) {
  const int blocks = spec.max_context / (kBlockPages * kKvPageTokens);
  return std::clamp(blocks, static_cast<int>(kAttentionParts),
                    static_cast<int>(kAttentionMaxParts));
}
std::size_t n_partials(const ModelSpec& spec, int max_rows) {
  return times(std::min(max_rows, kFewRows), spec.n_q_heads * parts_held(spec));
}

// How contexts are cut, and how many parts one of this pass can have. What a part is depends on the room alone, so that a context's bits
// do; parts that no context of the pass has are not launched.
struct Cut {
  unsigned block_from, block_pages, parts;
};
Cut cut_of(const Recorder& to, int table_stride) {
  const int held = parts_held(to.spec()), from = to.tuning().block_attention_from;
  const auto pages = std::max(kBlockPages, (table_stride + held - 1) / held);
  const int bound = (to.context_bound() + kKvPageTokens - 1) / kKvPageTokens;
  const int most = bound > 0 ? std::min(table_stride, bound) : table_stride;
  const int blocks = (most + pages - 1) / pages;
  const bool possible = from < most * kKvPageTokens;
  if (!to.mechanisms().block_attention || !possible)
    return {std::numeric_limits<unsigned>::max(), static_cast<unsigned>(pages), kAttentionParts};
  return {static_cast<unsigned>(from), static_cast<unsigned>(pages),
          std::max<unsigned>(kAttentionParts, static_cast<unsigned>(blocks))};
}

AttentionFewParams params_of(Recorder& to, const AttentionArgs& args, const Cut& cut) {
  const std::size_t n = n_partials(to.spec(), to.max_rows());
  AttentionFewParams params{};
  params.control = words_of(args.control);
  params.q = args.q;
  params.q_gate = args.q_gate;
  params.pages = static_cast<std::uint16_t*>(args.kv.pages);
  params.page_table = args.kv.page_table;
  params.y = args.y;
  params.mixes = to.scratch_of<float>("attention mixes", n * kHeadDim);
  params.sums = to.scratch_of<float>("attention sums", n * 2);
  params.table_stride = static_cast<unsigned>(args.kv.table_stride);
  params.n_q_heads = static_cast<unsigned>(args.n_q_heads);
  params.n_kv_heads = static_cast<unsigned>(args.kv.n_kv_heads);
  params.n_parts = static_cast<unsigned>(parts_held(to.spec()));
  params.block_from = cut.block_from;
  params.block_pages = cut.block_pages;
  params.scattered = to.mechanisms().coalesced_kv ? 0 : 1;
  return params;
}

void add_prepare(AttentionFewParams& params, const AttentionPrepareArgs& args) {
  params.k = args.k;
  params.v = args.v;
  params.q_norm = args.q_norm;
  params.k_norm = args.k_norm;
  params.frequencies = reinterpret_cast<const std::uint32_t*>(args.rope_frequencies);
  params.rope_magnitude = args.rope_magnitude;
  params.eps = args.eps;
}

// Null ranges where nothing is prepared on the way.
struct FewRanges {
  Range control, q, q_gate, y, pages, table, mixes, sums;
  Range k, v, q_norm, k_norm, frequencies, written_pages;
};
FewRanges ranges_of(const Recorder& to, const AttentionArgs& args,
                    const AttentionFewParams& params) {
  const std::size_t n = n_partials(to.spec(), to.max_rows());
  const std::size_t queries = times(to.rows_bound(), args.n_q_heads * kHeadDim),
                    of_kv = times(to.rows_bound(), args.kv.n_kv_heads * kHeadDim);
  const bool prepares = params.k != nullptr;
  FewRanges r{};
  r.control = range(args.control);
  r.q = prepares ? Range{} : range(args.q, queries);
  r.q_gate = range(args.q_gate, 2 * queries);
  r.y = range(args.y, queries);
  r.pages = to.to_end_of_buffer(args.kv.pages);
  r.table = to.to_end_of_buffer(args.kv.page_table);
  r.mixes = range(params.mixes, n * kHeadDim);
  r.sums = range(params.sums, n * 2);
  r.k = range(params.k, of_kv);
  r.v = range(params.v, of_kv);
  r.q_norm = range(params.q_norm, kHeadDim);
  r.k_norm = range(params.k_norm, kHeadDim);
  r.frequencies = range(params.frequencies, kRotaryDims);
  r.written_pages = prepares ? r.pages : Range{};
  return r;
}

}  // namespace

std::size_t attention_scratch_bytes(const ModelSpec& spec, int max_rows) {
  const std::size_t n = n_partials(spec, max_rows);
  return round_up(4 * n * kHeadDim, kSectionAlign) + round_up(4 * n * 2, kSectionAlign);
}

void record_attention_few(Recorder& to, const AttentionArgs& args,
                          const AttentionPrepareArgs* prepare) {
  LILY_CHECK(args.n_q_heads <= to.spec().n_q_heads);
  const int n_kv = args.kv.n_kv_heads, group = args.n_q_heads / n_kv;
  const Cut cut = cut_of(to, args.kv.table_stride);
  AttentionFewParams params = params_of(to, args, cut);
  if (prepare != nullptr) add_prepare(params, *prepare);
  const FewRanges r = ranges_of(to, args, params);
  const auto rows = static_cast<unsigned>(to.rows_bound());
  const int heads = to.mechanisms().packed_attention ? 4 : 1;  // That share what is read.
  to.launch(heads == 4 ? "attention_few_4" : "attention_few_1", params,
            {cut.parts, static_cast<unsigned>(n_kv) * groups_of(group, heads), rows}, 256,
            {r.control, r.q, prepare != nullptr ? r.q_gate : Range{}, r.q_norm, r.frequencies,
             r.pages, r.table},
            {r.mixes, r.sums});
  to.launch("attention_merge", params, {static_cast<unsigned>(args.n_q_heads), rows}, 256,
            {r.control, r.q, r.q_gate, r.k, r.v, r.q_norm, r.k_norm, r.frequencies, r.pages,
             r.table, r.mixes, r.sums},
            {r.y, r.written_pages});
}

}  // namespace lily::gpu
