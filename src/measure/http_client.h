// Requests to a server that may be anything, many at a time on one thread, over libcurl: what a
// server may send has bounds, and nothing is followed, decompressed or taken from the environment.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lily {

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;               // "Name: value"
  std::string body;                               // Empty: GET, else POST.
  std::chrono::milliseconds time_limit{600'000};  // For all of it.
};

struct HttpEnd {
  int status = 0;                         // 0: there was no reply.
  std::optional<int> retry_after_s = {};  // As the reply says, where it is a number of seconds.
  std::optional<Error> failure =
      {};  // Of the connection or of what came over it; kBusy: the time was over.
};

// Who waits for a reply.
class HttpListener {
 public:
  virtual ~HttpListener() = default;
  // Part of the body. An error ends the exchange and comes back as its failure.
  virtual Result<void> on_bytes(int status, std::string_view bytes) = 0;
  virtual void on_end(const HttpEnd& end) = 0;  // May start the next request.
};

class HttpClient {
 public:
  static Result<std::unique_ptr<HttpClient>> create();
  ~HttpClient();  // Ends what is under way; no listener is told.
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // The listener lives until its on_end.
  Result<void> start(const HttpRequest& request, HttpListener& listener);
  // Calls listeners with what has come; waits for the first at most so long.
  Result<void> run(std::chrono::milliseconds wait);

 private:
  struct Exchange;
  struct Multi;
  HttpClient();
  std::unique_ptr<Multi> multi_;
};

// One GET, its whole body: kTooLarge past `limit_bytes`, kIo where the status is not 200.
Result<std::string> http_get(const HttpRequest& request, std::size_t limit_bytes);

}  // namespace lily
