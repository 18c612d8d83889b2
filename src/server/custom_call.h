// Calls of custom tools: the model writes one argument, the client wants its text.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "server/tool_list.h"
#include "text/reply_parser.h"

namespace lily::server {

// The text of the argument "input"; where there is none, the arguments as they were written.
std::string custom_input(const std::string& arguments);

// Holds streamed calls of custom tools back until they are whole.
class CustomCalls {
 public:
  explicit CustomCalls(const ToolList& tools) : tools_(tools) {}

  struct Call {
    std::string name, arguments;
  };
  // True: the event belongs to such a call and is dealt with; at the call's end `whole` is set.
  bool take(int choice, const ReplyEvent& event, std::optional<Call>& whole);

 private:
  using Key = std::pair<int, std::size_t>;
  const ToolList& tools_;
  std::map<Key, Call> open_;
};

}  // namespace lily::server
