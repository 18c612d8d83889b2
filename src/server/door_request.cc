// Reading what every door has.
#include "server/door_request.h"

#include "text/chat_parse.h"

namespace lily::server {

Result<void> check_body(const Json& body) {
  if (!body.is(JsonKind::kObject)) return wrong_kind("body", body, "an object");
  return {};
}

Result<void> read_common(const Service& service, Fields& fields, DoorRequest& out) {
  LILY_TRY(const auto model, fields.text("model"));
  out.model = model.value_or(service.settings.model_id);
  LILY_TRY(out.wish.sampling, read_sampling(fields, service.sampling_defaults()));
  out.notes.seed = out.wish.sampling.seed;
  if (service.settings.replay) {
    LILY_TRY(out.wish.replay, read_replay(fields, service.engine.tokenizer()));
  }
  return {};
}

}  // namespace lily::server
