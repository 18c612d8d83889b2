// Chunks of chat completions, as several servers write them.
#include "measure/chat_stream.h"

#include <nlohmann/json.hpp>

namespace lily {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxEvents = 1 << 20;
constexpr std::size_t kShownBytes = 200;

Error broken(const std::string& what, std::string_view data) {
  return {ErrorCode::kCorrupt, what + ": " + std::string(data.substr(0, kShownBytes))};
}

const json* find(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// The text of servers that send roles and empty strings first does not count as a token.
bool says_something(const json& choice) {
  const json* delta = find(choice, "delta");
  if (!delta) return false;
  for (const char* key : {"content", "reasoning_content", "reasoning"}) {
    const json* text = find(*delta, key);
    if (text && text->is_string() && !text->get_ref<const std::string&>().empty()) return true;
  }
  const json* calls = find(*delta, "tool_calls");
  return calls && calls->is_array() && !calls->empty();
}

std::optional<int> count(const json& object, const char* key) {
  const json* value = find(object, key);
  if (!value || !value->is_number_integer()) return std::nullopt;
  const auto n = value->get<std::int64_t>();
  if (n < 0 || n > INT32_MAX) return std::nullopt;
  return static_cast<int>(n);
}

std::optional<ChatUsage> usage_of(const json& chunk) {
  const json* usage = find(chunk, "usage");
  if (!usage) return std::nullopt;
  const auto prompt = count(*usage, "prompt_tokens"),
             completion = count(*usage, "completion_tokens");
  if (!prompt || !completion) return std::nullopt;
  ChatUsage out{.prompt_tokens = *prompt, .completion_tokens = *completion};
  if (const json* details = find(*usage, "prompt_tokens_details"))
    out.cached_tokens = count(*details, "cached_tokens");
  return out;
}

}  // namespace

Result<void> ChatStream::add(std::string_view bytes, Clock::time_point now) {
  n_bytes_ += bytes.size();
  if (n_bytes_ > kMaxBytes)
    return Error{ErrorCode::kTooLarge,
                 "a reply of more than " + std::to_string(kMaxBytes) + " bytes"};
  return events_.add(bytes, [&](std::string_view data) { return take_event(data, now); });
}

Result<void> ChatStream::take_event(std::string_view data, Clock::time_point now) {
  if (data == "[DONE]") return {};
  const json chunk = json::parse(data, nullptr, false);
  if (!chunk.is_object()) return broken("an event that is no JSON object", data);
  if (find(chunk, "error")) return broken("an error in the stream", data);
  if (const auto usage = usage_of(chunk)) usage_ = usage;
  const json* choices = find(chunk, "choices");
  if (!choices || !choices->is_array()) return {};
  for (const json& choice : *choices) {
    if (find(choice, "finish_reason")) finished_ = true;
    if (!says_something(choice)) continue;
    if (times_.size() == kMaxEvents)
      return Error{ErrorCode::kTooLarge,
                   "an answer of more than " + std::to_string(kMaxEvents) + " events"};
    times_.push_back(now);
  }
  return {};
}

}  // namespace lily
