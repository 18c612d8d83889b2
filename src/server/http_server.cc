// Sockets, threads and the life of a connection.
#include "server/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "base/file.h"
#include "base/log.h"

namespace lily::server {
namespace {

constexpr int kBacklog = 512;

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Addresses> look_up(const std::string& host, int port) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (failed != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "--host: '" + host + "' is no address of this machine: " + ::gai_strerror(failed)};
  }
  return Addresses(found, &::freeaddrinfo);
}

// The socket's own address as text and whether only this machine reaches it.
std::string describe(int fd, bool& loopback) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  char text[INET6_ADDRSTRLEN] = "";
  if (bound.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(bound);
    ::inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof text);
    loopback = IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
    return std::string("[").append(text).append("]:").append(std::to_string(ntohs(six.sin6_port)));
  }
  const auto& four = reinterpret_cast<const sockaddr_in&>(bound);
  ::inet_ntop(AF_INET, &four.sin_addr, text, sizeof text);
  loopback = (ntohl(four.sin_addr.s_addr) >> 24) == 127;
  return std::string(text) + ":" + std::to_string(ntohs(four.sin_port));
}

Error listen_error(const std::string& place, int error) {
  if (error == EADDRINUSE)
    return {ErrorCode::kBusy, "listening on " + place + ": the port is taken"};
  if (error == EADDRNOTAVAIL) {
    return {ErrorCode::kInvalidArgument, "--host: " + place + " is no address of this machine"};
  }
  return system_error("listening on " + place, error);
}

}  // namespace

struct HttpServer::Client {
  explicit Client(int fd) : connection(fd) {}
  Connection connection;
  bool idle = true;  // Between requests.
};

HttpServer::HttpServer(const HttpServerOptions& options, HttpHandlers handlers)
    : limits_(options.limits), handlers_(std::move(handlers)), turns_(limits_) {}

Result<std::unique_ptr<HttpServer>> HttpServer::bind(const HttpServerOptions& options,
                                                     HttpHandlers handlers) {
  std::unique_ptr<HttpServer> server(new HttpServer(options, std::move(handlers)));
  LILY_RETURN_IF_ERROR(server->open_listener(options));
  return server;
}

Result<void> HttpServer::open_listener(const HttpServerOptions& options) {
  LILY_TRY(const auto addresses, look_up(options.host, options.port));
  const std::string place = options.host + ":" + std::to_string(options.port);
  int error = EADDRNOTAVAIL;
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    const int fd = ::socket(at->ai_family, at->ai_socktype, at->ai_protocol);
    if (fd < 0) continue;
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(fd, at->ai_addr, at->ai_addrlen) == 0 && ::listen(fd, kBacklog) == 0) {
      listener_ = fd;
      ::fcntl(fd, F_SETFL, O_NONBLOCK);
      ::fcntl(fd, F_SETFD, FD_CLOEXEC);
      address_ = describe(fd, is_loopback_);
      return {};
    }
    error = errno;
    ::close(fd);
  }
  return listen_error(place, error);
}

HttpServer::~HttpServer() {
  if (listener_ >= 0) ::close(listener_);
  cut();
  while (!drain(std::chrono::milliseconds(1000))) cut();
}

int HttpServer::n_connections() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(clients_.size());
}

void HttpServer::run() {
  for (;;) {
    pollfd wanted[2] = {{listener_, POLLIN, 0}, {stop_.readable_fd(), POLLIN, 0}};
    ::poll(wanted, 2, -1);
    if (wanted[1].revents != 0) break;
    if (wanted[0].revents != 0) accept_one();
  }
  ::close(listener_);
  listener_ = -1;
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  for (Client* client : clients_) {
    if (client->idle) client->connection.stop_reading();
  }
}

bool HttpServer::admit(Client& client) {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(clients_.size()) < limits_.connections && clients_.insert(&client).second;
}

void HttpServer::accept_one() {
  const int fd = ::accept(listener_, nullptr, nullptr);
  if (fd < 0) {
    // Out of descriptors: a connection that ends frees one.
    if (errno == EMFILE || errno == ENFILE)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return;
  }
  auto client = std::make_unique<Client>(fd);
  if (!admit(*client)) return refuse(client->connection, {503, "too many connections; try again"});
  Client* const kept = client.release();
  try {
    std::thread([this, kept] { serve(*kept); }).detach();
  } catch (const std::system_error& failure) {
    log_warning(std::string("a connection was dropped, no thread for it: ") + failure.what());
    const std::lock_guard lock(mutex_);
    clients_.erase(kept);
    delete kept;
  }
}

void HttpServer::serve(Client& client) {
  std::string pending;
  while (serve_one(client, pending)) {
  }
  client.connection.linger();
  const std::lock_guard lock(mutex_);
  clients_.erase(&client);
  delete &client;
  gone_.notify_all();
}

// False: the server is stopping, and a connection between two requests goes.
bool HttpServer::set_idle(Client& client, bool idle) {
  const std::lock_guard lock(mutex_);
  client.idle = idle;
  return !(idle && stopping_);
}

void HttpServer::refuse(Connection& connection, const HttpFault& fault) {
  HttpHead head;
  head.method = "GET";
  head.keep_alive = false;
  HttpExchange exchange(connection, std::move(head), {}, limits_, turns_);
  exchange.reply(handlers_.fault(fault));
}

// Reads until `pending` holds a whole head. 0: there is none to come, and the client was told why
// where that is for it to know.
std::size_t HttpServer::await_head(Connection& connection, std::string& pending) {
  auto deadline = Clock::now() + (pending.empty() ? limits_.idle_time : limits_.head_time);
  for (;;) {
    const std::size_t size = head_size(pending);
    if (std::max(size, size == 0 ? pending.size() : 0) > kMaxHeadBytes) {
      refuse(connection, {431, "head over " + std::to_string(kMaxHeadBytes) + " bytes"});
      return 0;
    }
    if (size > 0) return size;
    const bool fresh = pending.empty();
    const auto read = connection.read(pending, deadline);
    if (read == Connection::Read::kLate && !fresh)
      refuse(connection, {408, "the head did not arrive in time"});
    if (read != Connection::Read::kBytes) return 0;
    if (!fresh) continue;
    // Empty lines before a request are allowed.
    pending.erase(0, pending.find_first_not_of("\r\n"));
    deadline = Clock::now() + limits_.head_time;
  }
}

// One request of a connection; `pending` holds what was read beyond it. False: it was the last.
bool HttpServer::serve_one(Client& client, std::string& pending) {
  Connection& connection = client.connection;
  if (!set_idle(client, true)) return false;
  const std::size_t size = await_head(connection, pending);
  set_idle(client, false);
  if (size == 0) return false;
  HttpHead head;
  if (const auto fault = parse_http_head(std::string_view(pending).substr(0, size), head)) {
    refuse(connection, *fault);
    return false;
  }
  HttpExchange exchange(connection, std::move(head), pending.substr(size), limits_, turns_);
  handlers_.request(exchange);
  pending = exchange.take_rest();
  return exchange.can_go_on();
}

bool HttpServer::drain(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return gone_.wait_for(lock, time, [&] { return clients_.empty(); });
}

void HttpServer::cut() {
  const std::lock_guard lock(mutex_);
  for (Client* client : clients_) client->connection.cut();
}

}  // namespace lily::server
