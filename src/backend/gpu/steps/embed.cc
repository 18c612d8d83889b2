// embed: one launch.
#include "backend/gpu/kernels/embed_params.h"
#include "backend/gpu/steps/linear.h"
#include "backend/gpu/steps/matrix.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {

void record_embed(Recorder& to, const EmbedArgs& args) {
  const int rows = to.rows_bound(), cols = args.table.cols;
  const auto table = matrix_of(args.table);
  const EmbedParams params{words_of(args.control),
                           table.codes,
                           table.scales,
                           table.biases,
                           args.h,
                           table.cols,
                           table.bits};
  to.launch("embed", params, {groups_of(cols, 256), static_cast<unsigned>(rows)}, 64,
            {range(args.control), codes(args.table), scales(args.table), biases(args.table)},
            {range(args.h, times(rows, cols))});
}

}  // namespace lily::gpu
