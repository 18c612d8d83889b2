// Blocks, states and draws of the passes of an answer.
#include "engine/answer_passes.h"

#include <algorithm>

#include "base/check.h"

namespace lily {

DecodeWay decode_way(const BackendInfo& info, const Mechanisms& mechanisms) {
  const bool token_on_device = info.runs_ahead && mechanisms.token_on_device;
  return {.token_on_device = token_on_device,
          .in_flight = token_on_device && mechanisms.two_in_flight ? 2 : 1};
}

Result<void> AnswerPasses::begin(const Begin& prompt) {
  LILY_CHECK(n_begun_ == 0);
  return enqueue({.tokens = prompt.tokens,
                  .position = prompt.position,
                  .state_in = prompt.state,
                  .state_out = prompt.state == 0 ? 1 : 0,
                  .cancel = prompt.cancel});
}

bool AnswerPasses::can_follow() const {
  return in_flight() < way_.in_flight && (in_flight() == 0 || way_.token_on_device);
}

// A pass that may turn out to be one too many leaves the state before it; one that comes when its
// token is known works in place.
Result<void> AnswerPasses::follow() {
  LILY_CHECK(n_begun_ > 0 && can_follow());
  const bool keeps = way_.in_flight > 1;
  const std::span<const TokenId> token(&last_token_, way_.token_on_device ? 0 : 1);
  return enqueue({.tokens = token,
                  .position = next_position_,
                  .state_in = last_state_,
                  .state_out = keeps ? 1 - last_state_ : last_state_});
}

Result<void> AnswerPasses::enqueue(PassRequest request) {
  const int n_rows = std::max<int>(1, static_cast<int>(request.tokens.size()));
  const std::int32_t last_row = n_rows - 1;
  PassBuffers& buffers = model_.buffers;
  request.block = n_begun_ % PassBuffers::kBlocks;
  request.head = {.kind = HeadUse::Kind::kChoose};
  if (way_.token_on_device)
    request.head.next_tokens = buffers.device_tokens((n_begun_ + 1) % PassBuffers::kBlocks);
  request.head_rows = std::span(&last_row, 1);
  sampling_.set_draw(backend_, request.block, static_cast<std::uint64_t>(n_begun_));
  buffers.write_sampling(backend_, 0, sampling_.address(request.block), request.block);
  LILY_TRY(const Ticket ticket, enqueue_pass(backend_, model_, request));
  passes_.push_back({ticket, request.block, request.state_out});
  ++n_begun_;
  next_position_ = request.position + n_rows;
  last_state_ = request.state_out;
  return {};
}

Result<AnswerPasses::Taken> AnswerPasses::take() {
  LILY_CHECK(!passes_.empty());
  const Pass pass = passes_.front();
  passes_.pop_front();
  LILY_RETURN_IF_ERROR(backend_.wait(pass.ticket));
  LILY_TRY(const ChosenToken chosen, model_.buffers.read_chosen(backend_, 0, pass.block));
  last_token_ = chosen.token;
  return Taken{chosen, pass.state};
}

Result<void> AnswerPasses::drain() {
  if (passes_.empty()) return {};
  const Ticket last = passes_.back().ticket;
  passes_.clear();
  return backend_.wait(last);
}

}  // namespace lily
