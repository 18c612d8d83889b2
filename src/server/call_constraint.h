// Makes the model write a call: tool_choice "required", "any", or a tool by its name.
#pragma once

#include "server/constraints.h"
#include "server/tool_list.h"

namespace lily::server {

// Lets through
//   <tool_call> <function=NAME> { <parameter=KEY> VALUE </parameter> } </function> </tool_call>
// with a NAME of the tools that may be called, each KEY of its schema at most once and the required
// ones for certain; a VALUE is free. Then the answer ends.
Constraints call_constraints(const Engine& engine, const ToolList& tools, const ToolChoice& choice);

}  // namespace lily::server
