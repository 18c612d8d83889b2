// Blocks to messages, turn by turn.
#include "server/json_build.h"
#include "server/messages_request.h"
#include "text/chat_parse.h"

namespace lily::server {
namespace {

constexpr std::string_view kBillingLine = "x-anthropic-billing-header:";

Json text_part(std::string_view text) {
  return json_object({{"type", json_text("text")}, {"text", json_text(std::string(text))}});
}

// Without the line that changes with each request and would keep the rest from being found again.
std::string_view without_billing_line(std::string_view text) {
  if (!text.starts_with(kBillingLine)) return text;
  const auto end = text.find('\n');
  return end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
}

Error wrong_block(const std::string& place, const Json& block, std::string_view expected) {
  return {ErrorCode::kInvalidArgument, place + ".type: found " + in_quotes(text_at(block, "type")) +
                                           ", expected " + std::string(expected)};
}

Result<std::string> text_of(const std::string& place, const Json& block, const char* key) {
  const Json* text = block.find(key);
  if (is_null(text)) return Error{ErrorCode::kInvalidArgument, place + "." + key + ": missing"};
  if (!text->is(JsonKind::kString)) return wrong_kind(place + "." + key, *text, "a string");
  return text->text;
}

Result<Json> system_message(const Json& system, bool keep_billing_line) {
  const auto kept = [&](std::string_view text) {
    return keep_billing_line ? text : without_billing_line(text);
  };
  Json parts = Json::array();
  if (system.is(JsonKind::kString)) {
    parts.items.push_back(text_part(kept(system.text)));
  } else if (!system.is(JsonKind::kArray)) {
    return wrong_kind("system", system, "a string or a list of text blocks");
  } else {
    for (std::size_t i = 0; i < system.items.size(); ++i) {
      const std::string place = item_place("system", i);
      if (!system.items[i].is(JsonKind::kObject))
        return wrong_kind(place, system.items[i], "a text block");
      if (text_at(system.items[i], "type") != "text")
        return wrong_block(place, system.items[i], "text");
      LILY_TRY(const auto text, text_of(place, system.items[i], "text"));
      parts.items.push_back(text_part(kept(text)));
    }
  }
  return json_object({{"role", json_text("system")}, {"content", std::move(parts)}});
}

// What a tool gave back: a text, or blocks of text.
Result<Json> tool_message(const std::string& place, const Json& block) {
  Json parts = Json::array();
  const Json* content = block.find("content");
  if (!is_null(content) && content->is(JsonKind::kString)) {
    parts.items.push_back(text_part(content->text));
  } else if (!is_null(content) && !content->is(JsonKind::kArray)) {
    return wrong_kind(place + ".content", *content, "a string or a list of text blocks");
  } else if (!is_null(content)) {
    for (std::size_t i = 0; i < content->items.size(); ++i) {
      const std::string at = item_place(place + ".content", i);
      if (!content->items[i].is(JsonKind::kObject))
        return wrong_kind(at, content->items[i], "a text block");
      if (text_at(content->items[i], "type") != "text")
        return wrong_block(at, content->items[i], "text");
      LILY_TRY(const auto text, text_of(at, content->items[i], "text"));
      parts.items.push_back(text_part(text));
    }
  }
  return json_object({{"role", json_text("tool")}, {"content", std::move(parts)}});
}

// A user's turn: results of tools become messages of their own, in their place.
class UserTurn {
 public:
  explicit UserTurn(Json& out) : out_(out) {}

  Result<void> add(const std::string& place, const Json& block) {
    const std::string_view type = text_at(block, "type");
    if (type == "text") {
      LILY_TRY(const auto text, text_of(place, block, "text"));
      parts_.items.push_back(text_part(text));
    } else if (type == "tool_result") {
      flush();
      LILY_TRY(auto message, tool_message(place, block));
      out_.items.push_back(std::move(message));
    } else {
      return wrong_block(place, block, "text or tool_result");
    }
    return {};
  }

  void flush() {
    if (parts_.items.empty()) return;
    out_.items.push_back(
        json_object({{"role", json_text("user")}, {"content", std::move(parts_)}}));
    parts_ = Json::array();
  }

 private:
  Json& out_;
  Json parts_ = Json::array();
};

struct AssistantTurn {
  Json parts = Json::array();
  Json calls = Json::array();
  std::optional<std::string> thinking;

  Result<void> add(const std::string& place, const Json& block) {
    const std::string_view type = text_at(block, "type");
    if (type == "text") {
      LILY_TRY(const auto text, text_of(place, block, "text"));
      parts.items.push_back(text_part(text));
    } else if (type == "thinking") {
      LILY_TRY(const auto text, text_of(place, block, "thinking"));
      thinking = thinking.value_or("") + text;
    } else if (type == "tool_use") {
      LILY_TRY(const auto name, text_of(place, block, "name"));
      const Json* input = block.find("input");
      calls.items.push_back(json_object(
          {{"name", json_text(name)}, {"arguments", is_null(input) ? Json::object() : *input}}));
    } else if (type != "redacted_thinking") {
      return wrong_block(place, block, "text, thinking, redacted_thinking or tool_use");
    }
    return {};
  }

  Json message() {
    Json out = json_object({{"role", json_text("assistant")}, {"content", std::move(parts)}});
    if (thinking) out.set("reasoning_content", json_text(*thinking));
    if (!calls.items.empty()) out.set("tool_calls", std::move(calls));
    return out;
  }
};

template <typename Turn>
Result<void> add_blocks(Turn& turn, const std::string& place, const Json& blocks) {
  for (std::size_t i = 0; i < blocks.items.size(); ++i) {
    const std::string at = item_place(place, i);
    if (!blocks.items[i].is(JsonKind::kObject)) return wrong_kind(at, blocks.items[i], "a block");
    LILY_RETURN_IF_ERROR(turn.add(at, blocks.items[i]));
  }
  return {};
}

Result<void> add_message(const std::string& place, const Json& message, Json& out) {
  if (!message.is(JsonKind::kObject)) return wrong_kind(place, message, "an object");
  const Json* content = message.find("content");
  // Texts need no conversion, and what is neither is refused with the others' words.
  if (content == nullptr || !content->is(JsonKind::kArray)) {
    out.items.push_back(message);
    return {};
  }
  const std::string at = place + ".content";
  if (text_at(message, "role") == "assistant") {
    AssistantTurn turn;
    LILY_RETURN_IF_ERROR(add_blocks(turn, at, *content));
    out.items.push_back(turn.message());
    return {};
  }
  if (text_at(message, "role") != "user") {
    out.items.push_back(message);
    return {};
  }
  UserTurn turn(out);
  LILY_RETURN_IF_ERROR(add_blocks(turn, at, *content));
  turn.flush();
  return {};
}

}  // namespace

Result<Json> chat_messages(const Json* system, const Json& messages, bool keep_billing_line) {
  if (!messages.is(JsonKind::kArray)) return wrong_kind("messages", messages, "a list");
  Json out = Json::array();
  if (!is_null(system)) {
    LILY_TRY(auto message, system_message(*system, keep_billing_line));
    out.items.push_back(std::move(message));
  }
  for (std::size_t i = 0; i < messages.items.size(); ++i) {
    LILY_RETURN_IF_ERROR(add_message(item_place("messages", i), messages.items[i], out));
  }
  return out;
}

}  // namespace lily::server
