// Thinking switches, media, messages.
#include "server/chat_prompt.h"

#include <algorithm>
#include <array>

#include "server/json_build.h"
#include "text/chat_normalise.h"
#include "text/chat_parse.h"

namespace lily::server {
namespace {

struct EffortRow {
  std::string_view name;
  bool thinks;
};
constexpr std::array kEfforts{EffortRow{"none", false}, EffortRow{"minimal", true},
                              EffortRow{"low", true},   EffortRow{"medium", true},
                              EffortRow{"high", true},  EffortRow{"xhigh", true},
                              EffortRow{"max", true}};

Result<void> read_kwargs(Fields& fields, ThinkingWish& wish) {
  const Json* kwargs = fields.take("chat_template_kwargs");
  if (kwargs == nullptr) return {};
  if (!kwargs->is(JsonKind::kObject))
    return wrong_kind("chat_template_kwargs", *kwargs, "an object");
  Fields inner(*kwargs, "chat_template_kwargs.");
  LILY_TRY(const auto enabled, inner.boolean("enable_thinking"));
  LILY_TRY(const auto preserve, inner.boolean("preserve_thinking"));
  if (enabled)
    LILY_RETURN_IF_ERROR(add_thinking(wish, *enabled, "chat_template_kwargs.enable_thinking"));
  wish.preserve = wish.preserve || preserve.value_or(false);
  const auto unknown = inner.ignored();
  if (unknown.empty()) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      unknown.front() +
          ": the template has no such switch, it has enable_thinking and preserve_thinking"};
}

// "image" of {"type": "image_url", ...}; empty: not a medium.
std::string_view medium_of(const Json& part) {
  struct Row {
    std::string_view key, name;
  };
  constexpr std::array kRows{Row{"image", "images"},
                             Row{"image_url", "images"},
                             Row{"input_image", "images"},
                             Row{"video", "videos"},
                             Row{"video_url", "videos"},
                             Row{"input_video", "videos"},
                             Row{"audio", "sound"},
                             Row{"input_audio", "sound"},
                             Row{"audio_url", "sound"},
                             Row{"file", "files"},
                             Row{"input_file", "files"},
                             Row{"document", "files"},
                             Row{"computer_screenshot", "images"}};
  const std::string_view type = text_at(part, "type");
  for (const Row& row : kRows) {
    if (type == row.key || (type.empty() && part.find(row.key) != nullptr)) return row.name;
  }
  return {};
}

}  // namespace

std::optional<bool> thinking_of_effort(std::string_view effort) {
  const auto row = std::find_if(kEfforts.begin(), kEfforts.end(),
                                [&](const EffortRow& one) { return one.name == effort; });
  if (row == kEfforts.end()) return std::nullopt;
  return row->thinks;
}

Result<void> add_thinking(ThinkingWish& wish, bool enabled, std::string_view place) {
  if (wish.enabled && *wish.enabled != enabled) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string(place) + ": asks for thinking " + (enabled ? "on" : "off") +
                     ", another field of the request for the opposite"};
  }
  wish.enabled = enabled;
  return {};
}

Result<ThinkingWish> read_thinking(Fields& fields) {
  ThinkingWish wish;
  LILY_TRY(const auto enabled, fields.boolean("enable_thinking"));
  LILY_TRY(const auto preserve, fields.boolean("preserve_thinking"));
  wish.enabled = enabled;
  wish.preserve = preserve.value_or(false);
  LILY_RETURN_IF_ERROR(read_kwargs(fields, wish));
  LILY_TRY(const auto effort, fields.text("reasoning_effort"));
  if (!effort) return wish;
  const auto thinks = thinking_of_effort(*effort);
  if (!thinks) {
    return Error{ErrorCode::kInvalidArgument,
                 "reasoning_effort: found " + in_quotes(*effort) +
                     ", expected none, minimal, low, medium, high, xhigh or max"};
  }
  LILY_RETURN_IF_ERROR(add_thinking(wish, *thinks, "reasoning_effort"));
  return wish;
}

Result<void> refuse_media(const Json& messages, const std::string& place) {
  if (!messages.is(JsonKind::kArray)) return {};
  for (std::size_t i = 0; i < messages.items.size(); ++i) {
    const Json& item = messages.items[i];
    const std::string at = item_place(place, i);
    if (const auto medium = medium_of(item); !medium.empty()) {
      return Error{ErrorCode::kUnsupported,
                   at + ": " + std::string(medium) + " are not served here, only text is"};
    }
    for (const char* key : {"content", "output"}) {
      const Json* inner = item.find(key);
      if (inner != nullptr) LILY_RETURN_IF_ERROR(refuse_media(*inner, at + "." + key));
    }
  }
  return {};
}

Result<ChatInput> read_conversation(const Json* messages, const ToolList& tools,
                                    const ThinkingWish& thinking, bool thinking_by_default) {
  if (is_null(messages)) return Error{ErrorCode::kInvalidArgument, "messages: missing"};
  if (messages->is(JsonKind::kArray) && messages->items.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "messages: an empty list, expected at least one message"};
  }
  LILY_RETURN_IF_ERROR(refuse_media(*messages, "messages"));
  ChatOptions options;
  options.enable_thinking = thinking.enabled.value_or(thinking_by_default);
  options.preserve_thinking = thinking.preserve;
  LILY_TRY(auto normal, normalise_conversation(*messages, nullptr, options));
  normal.conversation.tools = tools.specs;
  return ChatInput{std::move(normal.conversation), std::move(normal.ignored)};
}

}  // namespace lily::server
