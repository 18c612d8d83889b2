// Which path is answered by what, and what stands before every route.
#pragma once

#include "server/gate.h"
#include "server/http.h"
#include "server/service.h"

namespace lily::server {

class Routes {
 public:
  Routes(Service& service, Gate gate, std::function<int()> n_connections)
      : service_(service), gate_(std::move(gate)), n_connections_(std::move(n_connections)) {}

  void answer(HttpExchange& exchange);
  // The reply to what is no HTTP, or too much.
  static HttpReply fault_reply(const HttpFault& fault);

 private:
  struct Route;
  static const Route* find(std::string_view path);
  std::optional<ApiError> check(const HttpHead& head) const;
  std::optional<ApiError> dispatch(HttpExchange& exchange);
  std::optional<ApiError> post(HttpExchange& exchange, const Route& route);
  Result<HttpReply> get(const HttpHead& head) const;

  Service& service_;
  Gate gate_;
  std::function<int()> n_connections_;
};

}  // namespace lily::server
