// A sequence with a cache of meaningless numbers, passes over it, and their times.
#include "measure/pass_timer.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/stopwatch.h"
#include "measure/plausible_bytes.h"
#include "measure/spread.h"
#include "measure/step_timer.h"

namespace lily {
namespace {

constexpr int kSlots = 2;  // A pass reads one and writes the other.

// Differ from row to row, so that rows choose different experts.
std::vector<TokenId> any_tokens(int n, int vocab) {
  std::vector<TokenId> out;
  for (int i = 0; i < n; ++i)
    out.push_back(static_cast<TokenId>(uniform_draw(1, static_cast<std::uint64_t>(i)) *
                                       static_cast<float>(vocab)));
  return out;
}

// Of the same pieces, run several times: on a processor whatever else runs only adds.
std::vector<PieceTime> fastest(const std::vector<std::vector<PieceTime>>& runs) {
  std::vector<PieceTime> out = runs.front();
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (const auto& run : runs) out[i].seconds = std::min(out[i].seconds, run[i].seconds);
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<PassTimer>> PassTimer::create(Backend& backend, const LoadedWeights& weights,
                                                     const Limits& limits) {
  std::unique_ptr<PassTimer> timer(new PassTimer(backend, limits));
  LILY_RETURN_IF_ERROR(timer->open(weights));
  return timer;
}

Result<void> PassTimer::open(const LoadedWeights& weights) {
  weights_ = weights;
  const ModelSpec& spec = weights.config.spec;
  const int positions = std::max(limits_.max_depth + 1, limits_.max_rows);
  const ModelLimits limits{.state = {.n_sequences = 1,
                                     .max_positions = positions,
                                     .n_pages = ModelState::pages_for(positions),
                                     .n_slots = kSlots},
                           .max_rows = limits_.max_rows,
                           .vocab_used = spec.vocab_rows};
  LILY_TRY(model_, create_model(backend_, weights_, limits));
  LILY_TRY(sampling_, SamplingBuffers::create(backend_, spec.vocab_rows));
  SamplingParams greedy;
  greedy.temperature = 0.0f;
  sampling_.begin(backend_, greedy, {});
  sampling_.set_draw(backend_, 0, 0);
  model_.buffers.write_sampling(backend_, 0, sampling_.address(0));
  LILY_RETURN_IF_ERROR(model_.state.reserve(backend_, 0, positions));
  fill_cache(positions);
  return {};
}

// Keys and values of all positions.
void PassTimer::fill_cache(int positions) {
  const auto pages = model_.state.share(0, positions);
  const std::vector<std::byte> contents = plausible_bytes(model_.state.page_bytes());
  for (const std::int32_t page : pages) model_.state.import_pages(backend_, {&page, 1}, contents);
  model_.state.release(pages);
}

PassShape PassTimer::decode_shape(int depth) const {
  LILY_CHECK(depth >= 0 && depth <= limits_.max_depth);
  return {.rows = 1,
          .position = depth,
          .head_rows = 1,
          .kv_element_bytes = backend_.info().kv_element_bytes};
}

PassShape PassTimer::prefill_shape(int rows) const {
  LILY_CHECK(rows >= 1 && rows <= limits_.max_rows);
  return {.rows = rows,
          .position = 0,
          .head_rows = 0,
          .kv_element_bytes = backend_.info().kv_element_bytes};
}

Result<PassTimes> PassTimer::time(const PassShape& shape, int repeats) {
  const auto tokens = any_tokens(shape.rows, spec().vocab_rows);
  const PassPart part{.tokens = tokens, .position = shape.position, .state_in = 0, .state_out = 1};
  static constexpr std::int32_t kFirst = 0;
  const bool chooses = shape.head_rows > 0;
  const PassRequest request{
      .parts = {&part, 1},
      .head = {.kind = chooses ? HeadUse::Kind::kChoose : HeadUse::Kind::kNone},
      .head_rows = chooses ? std::span(&kFirst, 1) : std::span<const std::int32_t>()};
  LILY_RETURN_IF_ERROR(run_pass(backend_, model_, request));
  return backend_.info().runs_ahead ? backend_.time_last_pass(repeats)
                                    : time_steps(request, repeats);
}

Result<PassTimes> PassTimer::time_steps(const PassRequest& request, int repeats) {
  StepTimer timer(backend_);
  std::vector<double> whole;
  std::vector<std::vector<PieceTime>> runs;
  for (int i = 0; i < repeats; ++i) {
    const Stopwatch watch;
    LILY_RETURN_IF_ERROR(run_pass(backend_, model_, request));
    whole.push_back(watch.seconds());
    LILY_RETURN_IF_ERROR(run_pass(timer, model_, request));
    runs.push_back(timer.take());
  }
  return PassTimes{.pieces = fastest(runs), .seconds = spread_of(std::move(whole)).low};
}

}  // namespace lily
