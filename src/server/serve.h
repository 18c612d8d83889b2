// The server from its start to its end.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "server/limits.h"

namespace lily::server {

struct ServeOptions {
  std::string host = "127.0.0.1";
  int port = 8080;
  std::string api_key;               // Needed where others than this machine can reach the server.
  std::vector<std::string> origins;  // Sites whose pages may call.
  std::string model_id;
  std::string version;
  bool thinking = true;
  bool keep_billing_line = false;
  bool replay = false;  // For tests: server/replay.h
  std::vector<std::string> replay_script = {};
  int max_waiting = 64;
  Path state_dir;                           // Empty: what is kept for reuse ends with the process.
  std::chrono::milliseconds grace{10'000};  // For answers that run when the end is asked for.
  HttpLimits limits = {};
};

// Called when the server can answer, with "127.0.0.1:8080".
using OnListening = std::function<void(const std::string& address)>;

// Serves until SIGTERM or SIGINT, then lets answers finish within the grace time. A second signal
// ends them at once.
Result<void> serve(Engine& engine, const ServeOptions& options, const OnListening& on_listening);

}  // namespace lily::server
