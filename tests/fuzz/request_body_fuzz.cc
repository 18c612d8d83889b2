// Any bytes as the body of a request: messages of each door, tools and choices are read or refused, and what is read renders.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "server/chat_prompt.h"
#include "server/messages_request.h"
#include "server/responses_request.h"
#include "server/tool_list.h"
#include "text/chat_template.h"

namespace {

using namespace lily;
using namespace lily::server;

void check_error(const Error& error) {
  if (error.message.empty() || http_status(error.code) >= 500) std::abort();
}

void read_chat(const Json* messages, const ToolList& tools, Fields& fields) {
  const auto thinking = read_thinking(fields);
  if (!thinking) return check_error(thinking.error());
  const auto input = read_conversation(messages, tools, *thinking, true);
  if (!input) return check_error(input.error());
  if (const auto rendered = render_chat(input->conversation); !rendered) check_error(rendered.error());
}

void read_body(const Json& body) {
  Fields fields(body);
  auto tools = read_tool_list(fields.take("tools"));
  if (!tools) check_error(tools.error());
  const ToolList list = tools ? *std::move(tools) : ToolList{};
  if (const auto choice = read_tool_choice(fields.take("tool_choice"), list); !choice) check_error(choice.error());
  const Json* messages = fields.take("messages");
  read_chat(messages, list, fields);
  if (messages != nullptr) {
    const auto chat = chat_messages(fields.take("system"), *messages, false);
    if (chat) read_chat(&*chat, list, fields);
    else check_error(chat.error());
  }
  if (const Json* input = fields.take("input")) {
    std::vector<std::string> left_out;
    const auto chat = chat_messages_of_items(fields.take("instructions"), *input, left_out);
    if (chat) read_chat(&*chat, list, fields);
    else check_error(chat.error());
  }
  if (fields.ignored().size() > body.keys.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto body = parse_json({reinterpret_cast<const char*>(data), size});
  if (body && body->is(JsonKind::kObject)) read_body(*body);
  return 0;
}
