// libcurl's multi interface.
#include "measure/http_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <list>

namespace lily {
namespace {

constexpr std::size_t kMaxHeadBytes = std::size_t{64} << 10;
constexpr long kConnectMs = 10'000;

struct EasyEnd {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct ListEnd {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
struct MultiEnd {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// The value of "Retry-After: 3". A date is nobody's habit here and counts as none.
std::optional<int> retry_after(std::string_view line) {
  constexpr std::string_view kName = "retry-after:";
  const auto same = [](char a, char b) { return lower(a) == b; };
  if (line.size() < kName.size() || !std::equal(kName.begin(), kName.end(), line.begin(),
                                                [&](char b, char a) { return same(a, b); }))
    return std::nullopt;
  line.remove_prefix(kName.size());
  while (line.starts_with(' ')) line.remove_prefix(1);
  int seconds = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), seconds);
  if (error != std::errc() || seconds < 0 || end == line.data()) return std::nullopt;
  return seconds;
}

Error failure_of(CURLcode code, const char* detail, const std::string& url) {
  const ErrorCode kind = code == CURLE_OPERATION_TIMEDOUT ? ErrorCode::kBusy : ErrorCode::kIo;
  const std::string what = *detail ? detail : curl_easy_strerror(code);
  return {kind, url + ": " + what};
}

}  // namespace

struct HttpClient::Exchange {
  std::unique_ptr<CURL, EasyEnd> easy;
  std::unique_ptr<curl_slist, ListEnd> headers;
  std::string url, body;
  HttpListener* listener = nullptr;
  HttpEnd end;
  std::size_t head_bytes = 0;
  char detail[CURL_ERROR_SIZE] = "";

  static std::size_t on_header(char* bytes, std::size_t, std::size_t n, void* self) {
    return static_cast<Exchange*>(self)->take_header({bytes, n}) ? n : 0;
  }
  static std::size_t on_body(char* bytes, std::size_t, std::size_t n, void* self) {
    return static_cast<Exchange*>(self)->take_body({bytes, n}) ? n : 0;
  }
  bool take_header(std::string_view line) {
    head_bytes += line.size();
    if (head_bytes > kMaxHeadBytes) {
      end.failure = Error{ErrorCode::kTooLarge,
                          fmt::format("{}: a head of more than {} bytes", url, kMaxHeadBytes)};
      return false;
    }
    if (const auto seconds = retry_after(line)) end.retry_after_s = seconds;
    return true;
  }
  bool take_body(std::string_view bytes) {
    auto taken = listener->on_bytes(status(), bytes);
    if (!taken) end.failure = std::move(taken).error();
    return taken.has_value();
  }
  int status() const {
    long code = 0;
    curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &code);
    return static_cast<int>(code);
  }
  void finish(CURLcode code) {
    end.status = status();
    if (code != CURLE_OK && !end.failure) end.failure = failure_of(code, detail, url);
  }
  CURLcode set_up(const HttpRequest& request);
};

CURLcode HttpClient::Exchange::set_up(const HttpRequest& request) {
  url = request.url, body = request.body;
  for (const auto& header : request.headers) {
    // The list grows in place; its head stays.
    curl_slist* const grown = curl_slist_append(headers.get(), header.c_str());
    if (!headers) headers.reset(grown);
  }
  CURLcode failed = CURLE_OK;
  const auto set = [&](CURLoption option, auto value) {
    if (failed == CURLE_OK) failed = curl_easy_setopt(easy.get(), option, value);
  };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_PROXY, "");
  set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_HTTPHEADER, headers.get());
  set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.time_limit.count()));
  set(CURLOPT_ERRORBUFFER, detail);
  set(CURLOPT_HEADERFUNCTION, &Exchange::on_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(CURLOPT_WRITEFUNCTION, &Exchange::on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  set(CURLOPT_PRIVATE, static_cast<void*>(this));
  if (body.empty()) return failed;
  set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  set(CURLOPT_POSTFIELDS, body.c_str());
  return failed;
}

struct HttpClient::Multi {
  std::list<Exchange> exchanges;                   // Nodes stay where they are.
  std::unique_ptr<CURLM, MultiEnd> curl{nullptr};  // Goes before the exchanges do.

  ~Multi() {
    for (const Exchange& one : exchanges) curl_multi_remove_handle(curl.get(), one.easy.get());
  }
  // What ended is taken out of the list before its listener hears of it, which may start more.
  void tell_ends() {
    int waiting = 0;
    while (const CURLMsg* message = curl_multi_info_read(curl.get(), &waiting)) {
      if (message->msg != CURLMSG_DONE) continue;
      CURL* const easy = message->easy_handle;
      const CURLcode code = message->data.result;
      const auto found = std::find_if(exchanges.begin(), exchanges.end(),
                                      [&](const Exchange& one) { return one.easy.get() == easy; });
      std::list<Exchange> ended;
      ended.splice(ended.begin(), exchanges, found);
      curl_multi_remove_handle(curl.get(), easy);
      ended.front().finish(code);
      ended.front().listener->on_end(ended.front().end);
    }
  }
};

HttpClient::HttpClient() : multi_(std::make_unique<Multi>()) {}
HttpClient::~HttpClient() = default;

Result<std::unique_ptr<HttpClient>> HttpClient::create() {
  static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
  std::unique_ptr<HttpClient> client(new HttpClient);
  client->multi_->curl.reset(curl_multi_init());
  if (global != CURLE_OK || !client->multi_->curl)
    return Error{ErrorCode::kIo, "libcurl cannot be started"};
  return client;
}

Result<void> HttpClient::start(const HttpRequest& request, HttpListener& listener) {
  Exchange& exchange = multi_->exchanges.emplace_back();
  exchange.easy.reset(curl_easy_init());
  exchange.listener = &listener;
  const CURLcode failed = exchange.easy ? exchange.set_up(request) : CURLE_OUT_OF_MEMORY;
  if (failed == CURLE_OK &&
      curl_multi_add_handle(multi_->curl.get(), exchange.easy.get()) == CURLM_OK)
    return {};
  Error error{ErrorCode::kIo, request.url + ": " + curl_easy_strerror(failed)};
  multi_->exchanges.pop_back();
  return error;
}

Result<void> HttpClient::run(std::chrono::milliseconds wait) {
  int running = 0;
  CURLMcode failed =
      curl_multi_poll(multi_->curl.get(), nullptr, 0, static_cast<int>(wait.count()), nullptr);
  if (failed == CURLM_OK) failed = curl_multi_perform(multi_->curl.get(), &running);
  if (failed != CURLM_OK)
    return Error{ErrorCode::kIo,
                 std::string("waiting for servers: ") + curl_multi_strerror(failed)};
  multi_->tell_ends();
  return {};
}

namespace {

class WholeBody final : public HttpListener {
 public:
  explicit WholeBody(std::size_t limit) : limit_(limit) {}
  Result<void> on_bytes(int, std::string_view bytes) override {
    if (body.size() + bytes.size() > limit_) {
      return Error{ErrorCode::kTooLarge, fmt::format("a reply of more than {} bytes", limit_)};
    }
    body += bytes;
    return {};
  }
  void on_end(const HttpEnd& how) override { end = how; }

  std::string body;
  std::optional<HttpEnd> end;

 private:
  std::size_t limit_;
};

}  // namespace

Result<std::string> http_get(const HttpRequest& request, std::size_t limit_bytes) {
  LILY_TRY(const auto client, HttpClient::create());
  WholeBody listener(limit_bytes);
  LILY_RETURN_IF_ERROR(client->start(request, listener));
  while (!listener.end) LILY_RETURN_IF_ERROR(client->run(std::chrono::milliseconds(100)));
  if (listener.end->failure) return *std::move(listener.end->failure);
  if (listener.end->status != 200) {
    return Error{ErrorCode::kIo,
                 fmt::format("{}: status {}, expected 200", request.url, listener.end->status)};
  }
  return std::move(listener.body);
}

}  // namespace lily
