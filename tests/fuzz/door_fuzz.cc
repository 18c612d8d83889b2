// Any bytes as the body of a request, at every door of a server that takes no more answers: it is read, rendered and planned whole, and refused with a
// reason of the client's own, or told that the server stops.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "server/api_error.h"
#include "server/body_turns.h"
#include "server/chat_completions.h"
#include "server/completions.h"
#include "server/messages.h"
#include "server/responses.h"
#include "server/small_routes.h"

namespace {

using namespace lily;
using namespace lily::server;

using Door = Result<void> (*)(Service&, HttpExchange&, const Json&);
constexpr std::array<Door, 6> kDoors{chat_completions, completions, responses, messages, count_tokens, apply_template};
constexpr int kStopping = 503;

struct Server {
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Scheduler> scheduler;
  Metrics metrics;
  std::unique_ptr<GrammarCompiler> grammars;
  std::unique_ptr<Service> service;
};

std::unique_ptr<Server> start() {
  auto server = std::make_unique<Server>();
  EngineOptions options;
  options.model = LILY_SOURCE_DIR "/models/pocket";
  options.context_tokens = 1024;
  options.pack = false;
  auto engine = Engine::open(options);
  if (!engine) std::abort();
  server->engine = *std::move(engine);
  auto scheduler = Scheduler::start(*server->engine, {});
  if (!scheduler) std::abort();
  server->scheduler = *std::move(scheduler);
  server->scheduler->drain(std::chrono::milliseconds(0));
  server->grammars = std::make_unique<GrammarCompiler>(server->engine->tokenizer(), server->engine->spec().end_tokens);
  server->service.reset(new Service{*server->engine, *server->scheduler, server->metrics, *server->grammars, {.model_id = "pocket", .version = "0"}});
  return server;
}

Service& service() {
  static const std::unique_ptr<Server> server = start();  // Its thread sleeps, and is waited for at the process's end.
  return *server->service;
}

void check_status(int status, const std::string& message) {
  if (message.empty() || (status >= 500 && status != kStopping)) std::abort();
}

// The client is gone, so that no reply waits for a reader.
void knock(Door door, const Json& body) {
  static const HttpLimits limits;
  static BodyTurns turns(limits);
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) std::abort();
  ::close(ends[1]);
  Connection connection(ends[0]);
  HttpHead head;
  head.method = std::string("POST");  // Assigned as characters, g++ 12 warns of an overlap that is none.
  head.path = std::string("/");
  HttpExchange exchange(connection, std::move(head), "", limits, turns);
  const auto done = door(service(), exchange, body);
  if (!done) return check_status(api_error(done.error()).status, done.error().message);
  if (exchange.status() >= 500) std::abort();
}

void ask(Result<HttpReply> (*page)(const Service&, const Json&), const Json& body) {
  if (const auto reply = page(service(), body); !reply) check_status(api_error(reply.error()).status, reply.error().message);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto body = parse_json({reinterpret_cast<const char*>(data), size});
  if (!body) return 0;
  for (const Door door : kDoors) knock(door, *body);
  ask(tokenize, *body);
  ask(detokenize, *body);
  return 0;
}
