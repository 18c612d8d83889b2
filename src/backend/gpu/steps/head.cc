// head: norm and product of a block of head rows. How many rows it has is known on the device only,
// so a pass of many rows names both ways to multiply, of which one does nothing.
#include "backend/gpu/steps/head.h"

#include "backend/gpu/kernels/head_chunks_params.h"
#include "backend/gpu/kernels/head_states_params.h"
#include "backend/gpu/steps/linear.h"
#include "backend/gpu/steps/matrix.h"
#include "backend/gpu/steps/steps.h"
#include "backend/gpu/steps/vocabulary.h"

namespace lily::gpu {

namespace {

LinearInput input_of(const HeadArgs& args) {
  return {.control = args.control,
          .x = args.h,
          .norm = args.norm,
          .eps = args.eps,
          .head_from = args.first};
}

void record_states(Recorder& to, const HeadArgs& args) {
  if (args.states == nullptr) return;
  const int rows = head_block_bound(to, args.first), hidden = args.lm_head.cols;
  const HeadStatesParams params{.control = words_of(args.control),
                                .h = args.h,
                                .norm = args.norm,
                                .states = args.states,
                                .hidden = static_cast<unsigned>(hidden),
                                .first = static_cast<unsigned>(args.first),
                                .eps = args.eps,
                                .unused = 0};
  to.launch("head_states", params, {static_cast<unsigned>(rows)}, 256,
            {range(args.control), range(args.h, times(to.rows_bound(), hidden)),
             range(args.norm, times(hidden, 1))},
            {range(args.states + times(args.first, hidden), times(rows, hidden))});
}

}  // namespace

bool choose_takes_head(const Recorder& to) {
  return to.rows_bound() <= kFewRows && to.mechanisms().fused_head_choose;
}

void record_head(Recorder& to, const HeadArgs& args) {
  record_linear(to, LinearWay::kEither, input_of(args), {{args.lm_head, args.logits}});
  record_states(to, args);
}

void record_head_chunks(Recorder& to, const HeadArgs& args, VocabularyChunk* chunks,
                        int vocab_used) {
  const int rows = head_block_bound(to, args.first), group_rows = rows == 1 ? 1 : 4;
  const auto sizes = vocabulary_sizes(vocab_used);
  const HeadChunksParams params{
      .linear = linear_params(input_of(args), {args.lm_head, args.logits}),
      .chunks = chunks,
      .vocab_used = static_cast<unsigned>(vocab_used),
      .chunk = sizes.chunk};
  const Range logits = range(args.logits, times(rows, args.lm_head.rows));
  to.launch(rows == 1 ? "head_chunks_1" : "head_chunks_4", params,
            {sizes.n_chunks, groups_of(rows, group_rows)}, 256,
            {range(args.control), range(args.h, times(to.rows_bound(), args.lm_head.cols)),
             range(args.norm, times(args.lm_head.cols, 1)), codes(args.lm_head),
             scales(args.lm_head), biases(args.lm_head), logits},
            {logits, chunks_range(chunks, rows)});
  record_states(to, args);
}

}  // namespace lily::gpu
