// Makes the model write a call: tool_choice "required", "any", or a tool by its name.
#pragma once

#include <functional>
#include <memory>

#include "engine/engine.h"
#include "engine/token_constraint.h"
#include "server/tool_list.h"

namespace lily::server {

// What gives each choice of an answer its constraint. Behind the thinking, where there is one, it
// lets through
//   <tool_call> <function=NAME> { <parameter=KEY> VALUE </parameter> } </function> </tool_call>
// with a NAME of the tools that may be called, each KEY of its schema at most once and the required
// ones for certain; a VALUE is free. Then the answer ends.
std::function<std::shared_ptr<TokenConstraint>()> call_constraints(const Engine& engine,
                                                                   const ToolList& tools,
                                                                   const ToolChoice& choice,
                                                                   bool in_thinking);

}  // namespace lily::server
