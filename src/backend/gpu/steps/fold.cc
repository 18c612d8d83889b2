// fold: a matrix as linear_few reads it, or memory from end to end.
#include "backend/gpu/kernels/fold_params.h"

#include <algorithm>

#include "backend/gpu/steps/matrix.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {
namespace {

constexpr std::int64_t kGroupBytes = 65536, kGroupRows = 8;

unsigned groups_for(std::int64_t n, std::int64_t a_group) {
  const std::int64_t groups = std::max<std::int64_t>(1, (n + a_group - 1) / a_group);
  LILY_CHECK(groups <= kFoldWords);
  return static_cast<unsigned>(groups);
}

}  // namespace

void record_fold(Recorder& to, const FoldArgs& args) {
  if (args.matrix.rows > 0) {
    const auto m = matrix_of(args.matrix);
    const FoldRowsParams params{.codes = m.codes,
                                .scales = m.scales,
                                .biases = m.biases,
                                .sink = args.sink,
                                .rows = static_cast<unsigned>(args.matrix.rows),
                                .cols = m.cols,
                                .bits = m.bits,
                                .unused = 0};
    const unsigned groups = groups_for(args.matrix.rows, kGroupRows);
    to.launch("fold_rows", params, {groups}, 64,
              {codes(args.matrix), scales(args.matrix), biases(args.matrix)},
              {range(args.sink, groups)});
    return;
  }
  LILY_CHECK(args.bytes >= 0 && args.bytes % 16 == 0);
  const auto bytes = static_cast<std::uint64_t>(args.bytes);
  const FoldWordsParams params{.from = static_cast<const unsigned*>(args.from),
                               .sink = args.sink,
                               .bytes_low = static_cast<std::uint32_t>(bytes),
                               .bytes_high = static_cast<std::uint32_t>(bytes >> 32)};
  const unsigned groups = groups_for(args.bytes, kGroupBytes);
  to.launch("fold_words", params, {groups}, 256, {{bytes > 0 ? args.from : nullptr, bytes}},
            {range(args.sink, groups)});
}

}  // namespace lily::gpu
