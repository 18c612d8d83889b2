// Pages for what runs: who makes room, who steps aside and when it comes back.
#include <algorithm>

#include "engine/running.h"

namespace lily {

// Pages for so many positions: free ones, those of kept states, those of whoever came last. False: that was this one itself.
bool Serving::make_room(Running& one, int n_positions) {
  ModelState& state = engine_.model.state;
  for (;;) {
    const int more = ModelState::pages_for(n_positions) - ModelState::pages_for(one.reserved);
    if (more <= 0 || checkpoints_.make_room(more)) break;
    const auto holds = [](const auto& r) { return r->chat && !r->aside && r->reserved > 0; };
    const auto last = std::find_if(running_.rbegin(), running_.rend(), holds);
    if (last == running_.rend()) return fail(one, {ErrorCode::kNoMemory, "KV cache: no page is left"}), false;
    put_aside(**last);
    if (last->get() == &one) return false;
  }
  one.reserved = std::max(one.reserved, n_positions);
  auto reserved = state.reserve(*engine_.backend, one.sequence, n_positions);
  if (!reserved) fail(one, std::move(reserved).error());
  return !one.ended;
}

void Serving::put_aside(Running& one) {
  ModelState& state = engine_.model.state;
  const auto pages = state.share(one.sequence, one.computed);
  one.aside.emplace(pages.size() * state.page_bytes());
  auto exported = state.export_pages(*engine_.backend, pages, *one.aside);
  state.release(pages);
  state.truncate(one.sequence, 0);
  one.reserved = 0;
  one.ends_prompt = false;
  if (!exported) fail(one, std::move(exported).error());
}

// Whoever was put aside first comes back as soon as there is room without putting anybody else aside.
void Serving::bring_back() {
  ModelState& state = engine_.model.state;
  for (const auto& one : running_) {
    if (!one->aside || one->ended) continue;
    const int ahead = std::min(one->computed + kPositionsAhead, one->n_prompt() + one->answer.limit());
    if (!checkpoints_.make_room(ModelState::pages_for(ahead))) return;
    settle();
    auto reserved = state.reserve(*engine_.backend, one->sequence, one->computed);
    if (!reserved) return fail(*one, std::move(reserved).error());
    const auto pages = state.share(one->sequence, one->computed);
    state.import_pages(*engine_.backend, pages, *one->aside);
    state.release(pages);
    one->reserved = one->computed;
    one->aside.reset();
  }
}

}  // namespace lily
