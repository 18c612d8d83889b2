// A line at a time, checked before anything is sent.
#include "measure/agent_trace.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace lily {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMaxTraceBytes = std::size_t{64} << 20, kMaxMessages = 4096;
constexpr double kMaxThinkSeconds = 3600;

Result<double> think_time(const ordered_json& line, std::size_t index, const std::string& where) {
  const auto times = line.find("think_s");
  if (times == line.end()) return 0.0;
  if (!times->is_array() || index >= times->size() || !(*times)[index].is_number()) {
    return Error{ErrorCode::kCorrupt,
                 where + "think_s: expected a number for each message of the assistant"};
  }
  const double seconds = (*times)[index].get<double>();
  if (seconds >= 0 && seconds <= kMaxThinkSeconds) return seconds;
  return Error{ErrorCode::kCorrupt,
               fmt::format("{}think_s: {}, expected 0 .. {}", where, seconds, kMaxThinkSeconds)};
}

Result<std::string> role_of(const ordered_json& message, const std::string& where) {
  const auto role = message.is_object() ? message.find("role") : message.end();
  if (!message.is_object() || role == message.end() || !role->is_string()) {
    return Error{ErrorCode::kCorrupt, where + "messages: expected objects with a role"};
  }
  return role->get<std::string>();
}

Result<void> add_messages(const ordered_json& line, const std::string& where,
                          TraceConversation& to) {
  const auto messages = line.find("messages");
  if (messages == line.end() || !messages->is_array() || messages->size() > kMaxMessages) {
    return Error{ErrorCode::kCorrupt,
                 fmt::format("{}messages: expected a list of at most {}", where, kMaxMessages)};
  }
  for (const auto& message : *messages) {
    LILY_TRY(const auto role, role_of(message, where));
    if (role == "assistant" && !to.messages.empty()) {
      LILY_TRY(const double think_s, think_time(line, to.requests.size(), where));
      to.requests.push_back({static_cast<int>(to.messages.size()), think_s});
    }
    to.messages.push_back(message.dump());
  }
  if (!to.requests.empty()) return {};
  return Error{
      ErrorCode::kCorrupt,
      where + "messages: none of the assistant behind another, so there is nothing to ask for"};
}

Result<TraceConversation> read_line(std::string_view text, const std::string& where) {
  const auto line = ordered_json::parse(text, nullptr, false);
  if (!line.is_object()) return Error{ErrorCode::kCorrupt, where + "expected a JSON object"};
  TraceConversation out;
  if (const auto name = line.find("name"); name != line.end() && name->is_string())
    out.name = name->get<std::string>();
  if (const auto tools = line.find("tools"); tools != line.end()) {
    if (!tools->is_array()) return Error{ErrorCode::kCorrupt, where + "tools: expected a list"};
    if (!tools->empty()) out.tools = tools->dump();
  }
  LILY_RETURN_IF_ERROR(add_messages(line, where, out));
  return out;
}

}  // namespace

Result<std::vector<TraceConversation>> read_agent_trace(const Path& file) {
  LILY_TRY(const auto text, read_file(file, kMaxTraceBytes));
  std::vector<TraceConversation> out;
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    const auto end = rest.find('\n');
    const auto line = rest.substr(0, end);
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    LILY_TRY(auto conversation, read_line(line, fmt::format("{}:{}: ", file.string(), number)));
    out.push_back(std::move(conversation));
  }
  if (out.empty()) return Error{ErrorCode::kCorrupt, file.string() + ": no conversation in it"};
  return out;
}

std::string messages_json(const TraceConversation& conversation, const TraceRequest& request) {
  std::string out = "[";
  for (int i = 0; i < request.n_messages; ++i) {
    if (i > 0) out += ',';
    out += conversation.messages[static_cast<std::size_t>(i)];
  }
  return out + "]";
}

}  // namespace lily
