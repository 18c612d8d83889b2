// The pocket checkpoint for tests: an engine on it, and prompts as a user would write them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine/chat.h"
#include "engine/engine.h"

namespace lily {

inline Path pocket_folder() { return Path(LILY_SOURCE_DIR) / "models/pocket"; }

inline EngineOptions pocket_options(const std::string& backend = "cpu") {
  EngineOptions options;
  options.model = pocket_folder();
  options.backend = backend;
  options.pack = false;  // Tests write nothing beside the checkpoint.
  return options;
}

// A test that cannot open the pocket fails here with the reason.
inline std::unique_ptr<Engine> open_or_fail(const EngineOptions& options) {
  auto engine = Engine::open(options);
  if (!engine) {
    ADD_FAILURE() << engine.error().message;
    std::abort();
  }
  return *std::move(engine);
}

inline Message said(Role role, const std::string& text) {
  Message message;
  message.role = role;
  message.content = {{.kind = ContentPart::Kind::kText, .text = text}};
  return message;
}

inline ChatPrompt ask(const Engine& engine, std::vector<Message> messages, bool thinking = false) {
  Conversation conversation;
  conversation.messages = std::move(messages);
  conversation.options.enable_thinking = thinking;
  auto prompt = encode_chat(engine.tokenizer(), conversation);
  EXPECT_TRUE(prompt.has_value()) << prompt.error().message;
  return *prompt;
}

inline ChatPrompt ask(const Engine& engine, const std::string& question) {
  return ask(engine, {said(Role::kUser, question)});
}

inline SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

inline GenerateRequest request_of(const ChatPrompt& prompt, int max_tokens = 64) {
  return {.prompt = prompt.tokens, .sampling = greedy(), .max_tokens = max_tokens, .borders = prompt.borders};
}

}  // namespace lily
