// Load on a server that speaks OpenAI's chat completions: conversations held by many clients at a
// time, and how long everything took.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "measure/agent_trace.h"
#include "measure/percentiles.h"

namespace lily {

struct ServerLoadOptions {
  std::string url;      // "http://127.0.0.1:8080", with or without /v1
  std::string api_key;  // Empty: none is sent.
  std::string model;    // Empty: the first that the server lists.
  int clients = 8;      // Conversations at a time, at most.
  int requests = 0;     // Ends behind so many; 0: does not.
  double seconds = 0;   // None is started after so many; 0: does not end so.
  double rate = 0;  // Conversations a second, at times drawn from an exponential distribution; 0:
                    // each client begins the next at once.
  std::uint64_t seed = 1;
  std::vector<TraceConversation> trace =
      {};  // In turn; empty: questions of prompt_words drawn words, each a conversation.
  int prompt_words = 64;
  int max_tokens = 64;        // Of an answer.
  int retries = 0;            // Of a request that is told to come back (429), when the server says.
  double time_limit_s = 600;  // Of a request.
  const std::atomic<bool>* cancel =
      nullptr;  // Ends the measurement; the report has what was measured.
  std::function<void(int done, double elapsed_s)> progress = {};
};

// Of requests that failed in one way.
struct ServerLoadErrors {
  int count = 0;
  std::string example;  // What the first of them said.
};

struct ServerLoadReport {
  std::string model;
  double seconds = 0;  // From the first request to the last end.
  int started = 0,
      answered = 0;  // Requests; the rest failed or was under way when the measurement was ended.
  int under_way = 0;
  int retried = 0;  // Times that a request was told to come back and did.
  std::map<std::string, ServerLoadErrors>
      errors;  // By kind: "status 500", "connection", "time limit", "broken reply"
  // Milliseconds, of answers. From when a request was due, so that one that had to wait for a free
  // client is not shorter for it.
  Percentiles first_token_ms, between_tokens_ms, whole_ms;
  Percentiles late_ms;  // How long requests waited for a free client.
  std::int64_t events =
      0;  // Pieces of answers that came; where a server counts no tokens they stand for them.
  std::int64_t tokens = 0, prompt_tokens = 0, cached_tokens = 0;
  int without_usage = 0;  // Answers whose tokens the server did not count.
  int with_cache = 0;     // Answers of which it told what came from its cache.
  std::int64_t prompt_tokens_with_cache = 0;
};

// Errors: options that fit no server, a list of models that cannot be read. What requests meet is
// in the report.
Result<ServerLoadReport> run_server_load(const ServerLoadOptions& options);

}  // namespace lily
