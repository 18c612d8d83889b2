// Blocks, states and draws of the passes of an answer.
#include "engine/answer_passes.h"

#include <algorithm>

#include "base/check.h"

namespace lily {

DecodeWay decode_way(const Backend& backend) {
  const Mechanisms mechanisms = backend.mechanisms();
  const bool token_on_device = backend.info().runs_ahead && mechanisms.token_on_device;
  return {.token_on_device = token_on_device,
          .in_flight = token_on_device && mechanisms.two_in_flight ? 2 : 1};
}

int AnswerPasses::state_of(const Answer& answer, bool turned) const {
  return turned ? other_slot(answer.row.state) : answer.row.state;
}

Result<void> AnswerPasses::begin(std::span<const Row> rows, const std::atomic<bool>* cancel) {
  LILY_CHECK(n_begun_ == 0 && !rows.empty());
  std::vector<PassPart> parts;
  for (const Row& row : rows) {
    parts.push_back({.tokens = row.tokens,
                     .position = row.position,
                     .sequence = row.sequence,
                     .state_in = row.state,
                     .state_out = other_slot(row.state)});
    answers_.push_back({row, row.position + static_cast<int>(row.tokens.size()), -1});
  }
  return enqueue(parts, true, cancel);
}

bool AnswerPasses::can_follow() const {
  return in_flight() < way_.in_flight && (in_flight() == 0 || way_.token_on_device);
}

// A pass that may turn out to be one too many leaves the state before it; one that comes when its
// token is known works in place.
Result<void> AnswerPasses::follow() {
  LILY_CHECK(n_begun_ > 0 && can_follow());
  const bool turned = way_.in_flight > 1 ? !turned_ : turned_;
  std::vector<PassPart> parts;
  for (Answer& answer : answers_) {
    const std::span<const TokenId> token(&answer.token, way_.token_on_device ? 0 : 1);
    parts.push_back({.tokens = token,
                     .position = answer.next_position++,
                     .sequence = answer.row.sequence,
                     .state_in = state_of(answer, turned_),
                     .state_out = state_of(answer, turned)});
  }
  return enqueue(parts, turned, nullptr);
}

Result<void> AnswerPasses::enqueue(std::span<const PassPart> parts, bool turned,
                                   const std::atomic<bool>* cancel) {
  PassBuffers& buffers = model_.buffers;
  const int block = n_begun_ % PassBuffers::kBlocks;
  PassRequest request{.parts = parts, .head = {.kind = HeadUse::Kind::kChoose}, .block = block, .cancel = cancel};
  if (way_.token_on_device)
    request.head.next_tokens = buffers.device_tokens((n_begun_ + 1) % PassBuffers::kBlocks);
  std::vector<std::int32_t> last_rows;
  std::int32_t n_rows = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    SamplingBuffers& sampling = *answers_[i].row.sampling;
    sampling.set_draw(backend_, block, answers_[i].row.draw + static_cast<std::uint64_t>(n_begun_));
    buffers.write_sampling(backend_, static_cast<int>(i), sampling.address(block), block);
    n_rows += std::max(1, static_cast<int>(parts[i].tokens.size()));
    last_rows.push_back(n_rows - 1);
  }
  request.head_rows = last_rows;
  LILY_TRY(const Ticket ticket, enqueue_pass(backend_, model_, request));
  passes_.push_back({ticket, block, turned});
  ++n_begun_;
  turned_ = turned;
  return {};
}

Result<std::span<const AnswerPasses::Taken>> AnswerPasses::take() {
  LILY_CHECK(!passes_.empty());
  const Pass pass = passes_.front();
  passes_.pop_front();
  LILY_RETURN_IF_ERROR(backend_.wait(pass.ticket));
  taken_.clear();
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    LILY_TRY(const ChosenToken chosen, model_.buffers.read_chosen(backend_, static_cast<int>(i), pass.block));
    answers_[i].token = chosen.token;
    taken_.push_back({chosen, state_of(answers_[i], pass.turned)});
  }
  return std::span<const Taken>(taken_);
}

Result<void> AnswerPasses::drain() {
  if (passes_.empty()) return {};
  const Ticket last = passes_.back().ticket;
  passes_.clear();
  return backend_.wait(last);
}

}  // namespace lily
