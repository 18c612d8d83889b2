// Arguments collected call by call.
#include "server/custom_call.h"

#include "server/json_build.h"

namespace lily::server {

std::string custom_input(const std::string& arguments) {
  const auto parsed = parse_json(arguments);
  const Json* input = parsed ? parsed->find(kCustomArgument) : nullptr;
  if (input == nullptr) return arguments;
  return input->is(JsonKind::kString) ? input->text : dump_json(*input);
}

bool CustomCalls::take(int choice, const ReplyEvent& event, std::optional<Call>& whole) {
  using Kind = ReplyEvent::Kind;
  const Key key{choice, event.call_idx};
  if (event.kind == Kind::kCallStart) {
    if (!tools_.is_custom(event.text)) return false;
    open_[key] = {event.text, {}};
    return true;
  }
  const auto at = open_.find(key);
  const bool of_call = event.kind == Kind::kCallArguments || event.kind == Kind::kCallEnd;
  if (!of_call || at == open_.end()) return false;
  at->second.arguments += event.kind == Kind::kCallArguments ? event.text : std::string();
  if (event.kind == Kind::kCallEnd) {
    whole = std::move(at->second);
    open_.erase(at);
  }
  return true;
}

}  // namespace lily::server
