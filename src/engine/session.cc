// A session is a server of one client: the same passes, the same states that are kept.
#include <optional>

#include "engine/serving.h"

namespace lily {

Session::Session(Engine::Impl& engine) : engine_(engine) {}
Session::~Session() = default;

void Session::clear() {
  serving_.reset();
  engine_.model.state.truncate(0, 0);  // What scores left there.
}

Result<GenerateResult> Session::generate(const GenerateRequest& request) {
  LILY_RETURN_IF_ERROR(check_request(engine_, request));
  if (!serving_) serving_ = std::make_unique<Serving>(engine_, ServingOptions{});
  serving_->admit({.request = request, .on_done = {}, .cancel = {}});
  for (;;) {
    auto ended = serving_->step();
    if (!ended.empty()) return std::move(ended.front().result);
  }
}

}  // namespace lily
