// Start, signals, grace.
#include "server/serve.h"

#include <signal.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <atomic>
#include <thread>

#include "base/log.h"
#include "server/http_server.h"
#include "server/routes.h"

namespace lily::server {
namespace {

// The server that signals stop; signal handlers know only what is global.
std::atomic<HttpServer*> running{nullptr};
std::atomic<int> n_signals{0}, n_in_handler{0};

void on_signal(int) {
  n_in_handler.fetch_add(1);
  n_signals.fetch_add(1);
  if (HttpServer* server = running.load()) server->stop();
  n_in_handler.fetch_sub(1);
}

// The handlers stay when the server is gone: a signal that comes while the process ends is no
// reason to end it with another status.
class SignalScope {
 public:
  explicit SignalScope(HttpServer& server) {
    running = &server;
    n_signals = 0;
    struct sigaction action {};
    action.sa_handler = on_signal;
    ::sigaction(SIGTERM, &action, nullptr);
    ::sigaction(SIGINT, &action, nullptr);
  }
  // A signal may be handled on any thread: the server is not let go while one has hold of it.
  ~SignalScope() {
    running = nullptr;
    while (n_in_handler.load() > 0) std::this_thread::yield();
  }
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
};

// Bodies and replies of a size worth it go back to the system when they go, whichever thread had
// them.
void settle_allocator() {
#if defined(__GLIBC__)
  constexpr int kLarge = 256 << 10, kArenas = 4;
  ::mallopt(M_MMAP_THRESHOLD, kLarge);
  ::mallopt(M_TRIM_THRESHOLD, kLarge);
  ::mallopt(M_ARENA_MAX, kArenas);
#endif
}

Result<void> check_options(const ServeOptions& options, bool loopback) {
  if (loopback || !options.api_key.empty()) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      "--host " + options.host + ": others than this machine could reach it; that needs --api-key"};
}

// Answers get the grace time, or less where a second signal comes; then they are stopped, and their
// connections say so.
void wind_down(HttpServer& server, Service& service, std::chrono::milliseconds grace) {
  constexpr auto kLook = std::chrono::milliseconds(50),
                 kLastWords = std::chrono::milliseconds(2000);
  service.stopping = true;
  const auto deadline = Clock::now() + grace;
  while (Clock::now() < deadline && n_signals < 2) {
    if (server.drain(kLook)) return;
  }
  service.scheduler.drain(std::chrono::milliseconds(0));
  if (!server.drain(kLastWords)) server.cut();
}

}  // namespace

Result<void> serve(Engine& engine, const ServeOptions& options, const OnListening& on_listening) {
  settle_allocator();
  LILY_TRY(const auto scheduler, Scheduler::start(engine, {.max_waiting = options.max_waiting,
                                                           .state_dir = options.state_dir}));
  Metrics metrics;
  GrammarCompiler grammars(engine.tokenizer(), engine.spec().end_tokens);
  Service service{engine,
                  *scheduler,
                  metrics,
                  grammars,
                  {.model_id = options.model_id,
                   .version = options.version,
                   .thinking = options.thinking,
                   .replay = options.replay,
                   .replay_script = options.replay_script,
                   .keep_billing_line = options.keep_billing_line,
                   .started_at = seconds_since_1970()}};
  std::unique_ptr<Routes> routes;
  LILY_TRY(const auto server,
           HttpServer::bind({.host = options.host, .port = options.port, .limits = options.limits},
                            {.request = [&](HttpExchange& exchange) { routes->answer(exchange); },
                             .fault = Routes::fault_reply}));
  LILY_RETURN_IF_ERROR(check_options(options, server->is_loopback()));
  routes = std::make_unique<Routes>(service,
                                    Gate({.api_key = options.api_key,
                                          .origins = options.origins,
                                          .host = options.host,
                                          .loopback = server->is_loopback()}),
                                    [&] { return server->n_connections(); });
  const SignalScope signals(*server);
  on_listening(server->address());
  server->run();
  wind_down(*server, service, options.grace);
  scheduler->drain(std::chrono::milliseconds(0));
  return {};
}

}  // namespace lily::server
