// Listens on one address and gives each request to a handler, a thread for each connection.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/result.h"
#include "server/body_turns.h"
#include "server/http.h"

namespace lily::server {

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // A name or an address.
  int port = 0;                    // 0: a free one.
  HttpLimits limits = {};
};

// What handlers cannot be asked about: their reply to a request that is no HTTP.
struct HttpHandlers {
  std::function<void(HttpExchange&)> request;
  std::function<HttpReply(const HttpFault&)> fault;
};

class HttpServer {
 public:
  // kInvalidArgument: a host that is no address here; kBusy: the port is taken; kPermission.
  static Result<std::unique_ptr<HttpServer>> bind(const HttpServerOptions& options,
                                                  HttpHandlers handlers);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  const std::string& address() const { return address_; }  // "127.0.0.1:8080", "[::1]:8080"
  bool is_loopback() const { return is_loopback_; }
  int n_connections() const;

  // Accepts until stop(), which may come from a signal handler.
  void run();
  void stop() { stop_.set(); }
  // After run(): connections finish their request and go; false: some are still there. cut() ends
  // those.
  bool drain(std::chrono::milliseconds time);
  void cut();

 private:
  struct Client;
  HttpServer(const HttpServerOptions& options, HttpHandlers handlers);
  Result<void> open_listener(const HttpServerOptions& options);
  void accept_one();
  bool admit(Client& client);  // False: there are as many as may be.
  void serve(Client& client);
  std::size_t await_head(Connection& connection, std::string& pending);
  bool serve_one(Client& client, std::string& pending);
  void refuse(Connection& connection, const HttpFault& fault);
  bool set_idle(Client& client, bool idle);

  HttpLimits limits_;
  HttpHandlers handlers_;
  BodyTurns turns_;
  int listener_ = -1;
  std::string address_;
  bool is_loopback_ = false;
  Wake stop_;

  mutable std::mutex mutex_;
  std::condition_variable gone_;
  std::set<Client*> clients_;
  bool stopping_ = false;
};

}  // namespace lily::server
