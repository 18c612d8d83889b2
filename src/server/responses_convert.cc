// Items to messages: what belongs to one turn of the assistant becomes one message.
#include <array>

#include "server/json_build.h"
#include "server/responses_request.h"
#include "text/chat_parse.h"

namespace lily::server {
namespace {

// The text of {"text": ...} parts, joined; a string is itself.
Result<std::string> text_of_parts(const std::string& place, const Json* value) {
  if (is_null(value)) return std::string();
  if (value->is(JsonKind::kString)) return value->text;
  if (!value->is(JsonKind::kArray)) return wrong_kind(place, *value, "a string or a list of parts");
  std::string out;
  for (std::size_t i = 0; i < value->items.size(); ++i) {
    const Json* text = value->items[i].find("text");
    if (is_null(text) || !text->is(JsonKind::kString)) {
      return Error{ErrorCode::kInvalidArgument, item_place(place, i) + ".text: expected a string"};
    }
    out += text->text;
  }
  return out;
}

Result<std::string> name_of(const std::string& place, const Json& item) {
  const Json* name = item.find("name");
  if (is_null(name)) return Error{ErrorCode::kInvalidArgument, place + ".name: missing"};
  if (!name->is(JsonKind::kString)) return wrong_kind(place + ".name", *name, "a string");
  return name->text;
}

class Items {
 public:
  explicit Items(std::vector<std::string>& left_out) : left_out_(left_out) {}

  Result<void> add(const std::string& place, const Json& item) {
    if (!item.is(JsonKind::kObject)) return wrong_kind(place, item, "an object");
    const std::string_view type = text_at(item, "type");
    if (type.empty() || type == "message") return add_message(place, item);
    if (type == "reasoning") return add_reasoning(place, item);
    if (type == "function_call" || type == "custom_tool_call") return add_call(place, item);
    if (type == "function_call_output" || type == "custom_tool_call_output")
      return add_output(place, item);
    if (type == "item_reference") {
      return Error{ErrorCode::kUnsupported,
                   place + ": nothing is stored here that could be referred to"};
    }
    left_out_.push_back(place + ": " + std::string(type.substr(0, 64)));
    return {};
  }

  Json finish() {
    flush();
    return std::move(out_);
  }

  void add_system(const Json& text) {
    out_.items.push_back(json_object({{"role", json_text("system")}, {"content", text}}));
  }

 private:
  Result<void> add_message(const std::string& place, const Json& item) {
    if (text_at(item, "role") != "assistant") {
      flush();
      Json message = item;
      message.set("type", json_text("message"));
      out_.items.push_back(std::move(message));
      return {};
    }
    LILY_TRY(const auto text, text_of_parts(place + ".content", item.find("content")));
    if (!content_.empty() || !calls_.items.empty()) flush();
    content_ = text;
    open_ = true;
    return {};
  }

  // Thinking comes before what it led to.
  Result<void> add_reasoning(const std::string& place, const Json& item) {
    if (open_ && (!content_.empty() || !calls_.items.empty())) flush();
    LILY_TRY(auto text, text_of_parts(place + ".content", item.find("content")));
    if (text.empty()) {
      LILY_TRY(text, text_of_parts(place + ".summary", item.find("summary")));
    }
    if (text.empty()) return {};
    reasoning_ = reasoning_.value_or("") + text;
    open_ = true;
    return {};
  }

  Result<void> add_call(const std::string& place, const Json& item) {
    LILY_TRY(const auto name, name_of(place, item));
    const Json* input = item.find("input");
    const Json* arguments = item.find("arguments");
    Json given = arguments == nullptr ? Json::object() : *arguments;
    if (!is_null(input)) given = json_object({{kCustomArgument, *input}});
    calls_.items.push_back(
        json_object({{"name", json_text(name)}, {"arguments", std::move(given)}}));
    open_ = true;
    return {};
  }

  Result<void> add_output(const std::string& place, const Json& item) {
    flush();
    LILY_TRY(const auto text, text_of_parts(place + ".output", item.find("output")));
    out_.items.push_back(json_object({{"role", json_text("tool")}, {"content", json_text(text)}}));
    return {};
  }

  void flush() {
    if (!open_) return;
    Json message =
        json_object({{"role", json_text("assistant")}, {"content", json_text(content_)}});
    if (reasoning_) message.set("reasoning_content", json_text(*reasoning_));
    if (!calls_.items.empty()) message.set("tool_calls", std::move(calls_));
    out_.items.push_back(std::move(message));
    content_.clear();
    reasoning_.reset();
    calls_ = Json::array();
    open_ = false;
  }

  std::vector<std::string>& left_out_;
  Json out_ = Json::array();
  bool open_ = false;  // The assistant's turn that is being put together.
  std::string content_;
  std::optional<std::string> reasoning_;
  Json calls_ = Json::array();
};

}  // namespace

Result<Json> chat_messages_of_items(const Json* instructions, const Json& input,
                                    std::vector<std::string>& left_out) {
  Items items(left_out);
  if (!is_null(instructions)) {
    if (!instructions->is(JsonKind::kString))
      return wrong_kind("instructions", *instructions, "a string");
    items.add_system(*instructions);
  }
  if (input.is(JsonKind::kString)) {
    LILY_RETURN_IF_ERROR(
        items.add("input", json_object({{"role", json_text("user")}, {"content", input}})));
    return items.finish();
  }
  if (!input.is(JsonKind::kArray)) return wrong_kind("input", input, "a string or a list of items");
  for (std::size_t i = 0; i < input.items.size(); ++i) {
    LILY_RETURN_IF_ERROR(items.add(item_place("input", i), input.items[i]));
  }
  return items.finish();
}

}  // namespace lily::server
