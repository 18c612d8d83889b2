// lily serve: the API and the chat page, until it is told to stop.
#include "server/serve.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/model_source.h"
#include "cli/terminal.h"
#include "engine/plan.h"
#include "text/chat_json.h"

namespace lily::cli {
namespace {

// What is kept of earlier prompts and answers, where nobody says.
std::size_t default_cache_bytes() {
  constexpr std::uint64_t kShare = 16, kMost = std::uint64_t{8} << 30;
  return static_cast<std::size_t>(std::min(machine_memory_bytes() / kShare, kMost));
}

Result<std::vector<std::string>> read_script(const Path& file) {
  std::vector<std::string> out;
  if (file.empty()) return out;
  LILY_TRY(const std::string text, read_file(file, kMaxJsonBytes));
  LILY_TRY(const Json list, parse_json(text));
  for (const Json& one : list.items) {
    if (!one.is(JsonKind::kString)) {
      return Error{ErrorCode::kInvalidArgument,
                   "--replay-script: " + file.string() + ": expected a list of texts"};
    }
    out.push_back(one.text);
  }
  return out;
}

void print_clients(const std::string& url, const std::string& model, bool needs_key) {
  const char* key = needs_key ? "YOUR-KEY" : "none";
  print_note(
      fmt::format("chat page        {0}/\n"
                  "OpenAI clients   base URL {0}/v1, key {2}, model {1}\n"
                  "                 export OPENAI_BASE_URL={0}/v1 OPENAI_API_KEY={2}\n"
                  "Anthropic        export ANTHROPIC_BASE_URL={0} ANTHROPIC_API_KEY={2}\n",
                  url, model, key));
}

}  // namespace

Result<int> execute(const ServeFlags& flags) {
  if (flags.verbose) set_log_level(LogLevel::kDebug);
  LILY_TRY(const Path folder, model_folder(flags.engine.model));
  OpenWishes wishes;
  wishes.n_sequences = flags.max_running;
  wishes.checkpoint_bytes = flags.cache_mebibytes > 0
                                ? static_cast<std::size_t>(flags.cache_mebibytes) << 20
                                : default_cache_bytes();
  LILY_TRY(const auto engine, open_engine(flags.engine, wishes));
  server::ServeOptions options;
  options.host = flags.host;
  options.port = flags.port;
  options.api_key = flags.api_key;
  options.origins = flags.origins;
  options.model_id = model_name(folder);
  options.version = LILY_VERSION;
  options.thinking = !flags.no_thinking;
  options.keep_billing_line = flags.keep_billing_line;
  options.replay = flags.replay;
  LILY_TRY(options.replay_script, read_script(flags.replay_script));
  options.max_waiting = flags.max_waiting;
  options.state_dir = flags.state_dir;
  options.grace = std::chrono::seconds(flags.grace_seconds);
  LILY_RETURN_IF_ERROR(server::serve(*engine, options, [&](const std::string& address) {
    print_note("listening on http://" + address + "\n");
    print_clients("http://" + address, options.model_id, !flags.api_key.empty());
  }));
  return 0;
}

}  // namespace lily::cli
