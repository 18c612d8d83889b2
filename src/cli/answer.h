// One answer of a model: sampling settings from flags, thinking and text told apart while they
// stream, and what is said about it afterwards.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/terminal.h"
#include "engine/chat.h"
#include "engine/engine.h"
#include "text/reply_parser.h"

namespace lily::cli {

struct SettledSampling {
  SamplingParams params;
  bool drew_seed = false;  // Nobody asked for this seed: the user is told.
};

// Flags over the preset, or over generation_config.json. kInvalidArgument names the flag.
Result<SettledSampling> settle_sampling(const SamplingFlags& flags,
                                        const GenerationDefaults& defaults);

// "seed 123" on standard error, where it matters.
void tell_seed(const SettledSampling& sampling, bool quiet);

struct TokenRecord {
  TokenId token;
  float log_prob;
  std::vector<std::int32_t> top_ids;
  std::vector<float> top_log_probs;
};

struct Answer {
  Reply reply;  // Reasoning and content.
  GenerateResult result;
  std::vector<TokenRecord> records;  // Where alternatives were asked for.
};

struct AnswerWishes {
  bool show = true;            // Content to standard output as it comes.
  bool show_reasoning = true;  // Thinking to standard error.
  bool quiet = false;          // No progress line.
};

// Ctrl-C, and a reader that went away, end the answer within a step: that is a result (kCancelled),
// not an error.
Result<Answer> answer(Engine& engine, const ChatPrompt& prompt, GenerateRequest request,
                      const AnswerWishes& wishes, InterruptScope& interrupt);

// "27 tokens, 35.1 tokens/s; prompt 19 tokens (12 cached), 812 tokens/s"
std::string speed_line(const GenerateResult& result);

}  // namespace lily::cli
