// What every route needs: the engine and its scheduler, what was chosen at the start, and the
// figures.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/scheduler.h"
#include "server/grammar.h"
#include "server/metrics.h"
#include "server/sampling_fields.h"

namespace lily::server {

struct ServiceSettings {
  std::string model_id;  // The name of the model's folder.
  std::string version;   // Of Lily.
  bool thinking = true;  // Where a request does not say.
  bool replay = false;   // Requests may bring the tokens of their answer: for tests.
  std::vector<std::string> replay_script =
      {};                          // Answers of requests with tools, in turn: for tests.
  bool keep_billing_line = false;  // docs/API.md, "Anthropic".
  std::int64_t started_at = 0;     // Seconds since 1970.
};

struct Service {
  Engine& engine;
  Scheduler& scheduler;
  Metrics& metrics;
  GrammarCompiler& grammars;
  ServiceSettings settings;
  std::atomic<bool> stopping{false};
  std::atomic<std::size_t> n_replayed{0};  // Of the script.

  SamplingDefaults sampling_defaults() const {
    return {engine.generation_defaults(), engine.tokenizer().n_ids()};
  }
};

std::int64_t seconds_since_1970();
// "chatcmpl-1f3a…": unlike any other since the start, and hard to guess from it.
std::string new_id(std::string_view prefix);

}  // namespace lily::server
