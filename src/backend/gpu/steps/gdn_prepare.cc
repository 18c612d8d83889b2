// gdn_prepare as one launch, whatever the number of rows.
#include "backend/gpu/kernels/gdn_prepare_params.h"
#include "backend/gpu/steps/segment_blocks.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {
namespace {

constexpr int kBlockRows = 16;  // kGdnPrepareRows of kernels/gdn_prepare.cc.

}  // namespace

void record_gdn_prepare(Recorder& to, const GdnPrepareArgs& args) {
  const int n_keys = args.n_key_heads, n_values = args.n_value_heads;
  const int n_heads = 2 * n_keys + n_values, n_rows = to.rows_bound();
  const SlotLayout slots = slots_of(args.state, args.state.conv_offset);
  const GdnPrepareParams params = {.control = words_of(args.control),
                                   .qkv = args.qkv,
                                   .b = args.b,
                                   .a = args.a,
                                   .conv_weight = args.conv_weight,
                                   .a_log = args.a_log,
                                   .dt_bias = args.dt_bias,
                                   .windows = slots.first,
                                   .q = args.q,
                                   .k = args.k,
                                   .v = args.v,
                                   .decay = args.decay,
                                   .beta = args.beta,
                                   .slot_floats = slots.stride,
                                   .n_key_heads = static_cast<unsigned>(n_keys),
                                   .n_value_heads = static_cast<unsigned>(n_values),
                                   .eps = args.eps};
  const Range pool = to.to_end_of_buffer(args.state.base);
  const std::size_t keys = times(n_rows, n_keys * kDeltaDim),
                    values = times(n_rows, n_values * kDeltaDim), gates = times(n_rows, n_values);
  to.launch("gdn_prepare", params, {groups_of(n_heads + 1, 4), blocks_bound(n_rows, kBlockRows)},
            128,
            {range(args.control), range(args.qkv, 2 * keys + values), range(args.b, gates),
             range(args.a, gates), range(args.conv_weight, times(n_heads * kDeltaDim, kConvTaps)),
             range(args.a_log, times(n_values, 1)), range(args.dt_bias, times(n_values, 1)), pool},
            {pool, range(args.q, keys), range(args.k, keys), range(args.v, values),
             range(args.decay, gates), range(args.beta, gates)});
}

}  // namespace lily::gpu
