// gdn_scan: few rows in one launch, many in two, since a head then needs more than a threadgroup.
// Where the norm is not fused few rows go the way of many; the bits are the same.
#include "backend/gpu/kernels/gdn_scan_params.h"
#include "backend/gpu/steps/segment_blocks.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {

void record_gdn_scan(Recorder& to, const GdnScanArgs& args) {
  const int n_rows = to.rows_bound(), n_heads = args.n_value_heads;
  const SlotLayout slots = slots_of(args.state, args.state.delta_offset);
  const GdnScanParams params = {.control = words_of(args.control),
                                .q = args.q,
                                .k = args.k,
                                .v = args.v,
                                .decay = args.decay,
                                .beta = args.beta,
                                .z = args.z,
                                .norm = args.norm,
                                .states = slots.first,
                                .y = args.y,
                                .slot_floats = slots.stride,
                                .n_key_heads = static_cast<unsigned>(args.n_key_heads),
                                .n_value_heads = static_cast<unsigned>(n_heads),
                                .z_sigmoid = static_cast<unsigned>(args.z_sigmoid),
                                .eps = args.eps,
                                .unused = 0};
  const Range control = range(args.control), norm = range(args.norm, kDeltaDim);
  const Range pool = to.to_end_of_buffer(args.state.base);
  const std::size_t keys = times(n_rows, args.n_key_heads * kDeltaDim),
                    values = times(n_rows, n_heads * kDeltaDim), gates = times(n_rows, n_heads);
  const Range q = range(args.q, keys), k = range(args.k, keys), v = range(args.v, values),
              z = range(args.z, values), y = range(args.y, values),
              decay = range(args.decay, gates), beta = range(args.beta, gates);
  const auto heads = static_cast<unsigned>(n_heads);
  if (n_rows <= kFewRows && to.mechanisms().fused_scan_norm) {
    to.launch("gdn_scan_few", params, {heads, segments_bound(n_rows)}, 512,
              {control, q, k, v, decay, beta, z, norm, pool}, {pool, y});
    return;
  }
  to.launch(to.mechanisms().register_state ? "gdn_scan_many" : "gdn_scan_blocks", params,
            {4 * heads, segments_bound(n_rows)}, 128, {control, q, k, v, decay, beta, pool},
            {pool, y});
  to.launch("gdn_norm", params, {groups_of(n_heads, 4), static_cast<unsigned>(n_rows)}, 128,
            {control, y, z, norm}, {y});
}

}  // namespace lily::gpu
