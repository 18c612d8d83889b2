// Recorded conversations to be held again: what an agent sent, and how long it took between an
// answer and its next request. A file of JSON objects, one a line:
//
//   {"name": "...", "tools": [...], "messages": [...], "think_s": [...]}
//
// Each message of the assistant was a request, made of all messages before it; think_s has how long
// that request was in coming.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace lily {

struct TraceRequest {
  int n_messages = 0;  // The first so many of the conversation.
  double think_s = 0;  // Behind the end of the answer before.
};

struct TraceConversation {
  std::string name;
  std::string tools;                   // JSON list, or empty.
  std::vector<std::string> messages;   // JSON objects.
  std::vector<TraceRequest> requests;  // At least one.
};

// At most 64 MiB, 4,096 messages a conversation and an hour of thinking. kCorrupt names the line.
Result<std::vector<TraceConversation>> read_agent_trace(const Path& file);

// "[...]": the messages of a request.
std::string messages_json(const TraceConversation& conversation, const TraceRequest& request);

}  // namespace lily
