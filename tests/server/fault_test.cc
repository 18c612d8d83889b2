// A number that is not finite, planted in a pass: whoever it belongs to is told so, in the way of
// its door, and nobody else notices.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cmath>
#include <future>
#include <thread>

#include "backend/backends.h"
#include "server/serve.h"
#include "tests/engine/lazy_backend.h"
#include "tests/engine/pocket.h"
#include "text/chat_json.h"

namespace lily::server {
namespace {

// Ends are forbidden, so that answers are long enough to meet.
constexpr const char* kStory =
    R"({"messages": [{"role": "user", "content": "Tell me a story."}], "temperature": 0, "max_tokens": 200,
                                   "enable_thinking": false, "logit_bias": {"4072": -100, "4070": -100}})";

int port_of(const std::string& address) {
  int port = 0;
  std::from_chars(address.data() + address.rfind(':') + 1, address.data() + address.size(), port);
  return port;
}

std::string post(int port, const std::string& path, const std::string& body) {
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const std::string request =
      "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body;
  EXPECT_EQ(::send(client, request.data(), request.size(), 0),
            static_cast<ssize_t>(request.size()));
  std::string out(1 << 18, '\0');
  std::size_t size = 0;
  for (ssize_t n = 0; (n = ::recv(client, out.data() + size, out.size() - size, 0)) > 0;)
    size += static_cast<std::size_t>(n);
  ::close(client);
  out.resize(size);
  return out;
}

std::string text_of(const std::string& reply) {
  const auto json = parse_json(std::string_view(reply).substr(reply.find("\r\n\r\n") + 4));
  const Json* choices = json ? json->find("choices") : nullptr;
  return choices == nullptr ? reply : choices->items[0].find("message")->find("content")->text;
}

class Faults : public ::testing::Test {
 protected:
  void SetUp() override {
    auto options = pocket_options();
    options.n_sequences = 2;
    options.make_backend = [this]() -> Result<std::unique_ptr<Backend>> {
      LILY_TRY(auto cpu, open_backend("cpu", {}));
      auto lazy = std::make_unique<LazyBackend>(std::move(cpu));
      lazy->before_choose = [this](Ticket, const ChooseArgs& args) {
        const bool now = args.control->n_head_rows >= wanted_rows_ && wanted_rows_ > 0;
        if (now) wanted_rows_ = 0, const_cast<float*>(args.logits)[0] = std::nanf("");
      };
      return Result<std::unique_ptr<Backend>>(std::move(lazy));
    };
    engine_ = open_or_fail(options);
    std::promise<int> listening;
    ServeOptions how;
    how.port = 0;
    how.model_id = "pocket";
    server_ = std::thread([this, how, &listening] {
      const auto served = serve(*engine_, how, [&](const std::string& address) {
        listening.set_value(port_of(address));
      });
      EXPECT_TRUE(served) << served.error().message;
    });
    port_ = listening.get_future().get();
  }
  void TearDown() override {
    ::kill(::getpid(), SIGTERM);
    server_.join();
  }
  // The first row of the next pass that chooses for so many.
  void plant(int n_rows) { wanted_rows_ = n_rows; }
  bool planted() const { return wanted_rows_ == 0; }
  std::string chat(const std::string& body) { return post(port_, "/v1/chat/completions", body); }

 private:
  std::atomic<int> wanted_rows_{0};
  std::unique_ptr<Engine> engine_;
  std::thread server_;
  int port_ = 0;
};

TEST_F(Faults, R085AFaultOfTheEngineIsOursAndOfItsRequestAlone) {
  const std::string alone = text_of(chat(kStory));
  plant(2);
  auto first = std::async(std::launch::async, [this] { return chat(kStory); });
  auto second = std::async(std::launch::async, [this] { return chat(kStory); });
  const std::string replies[] = {first.get(), second.get()};
  EXPECT_TRUE(planted());
  int n_failed = 0;
  for (const std::string& reply : replies) {
    const bool failed = reply.starts_with("HTTP/1.1 500 ");
    n_failed += failed;
    if (!failed) {
      EXPECT_EQ(text_of(reply), alone);
      continue;
    }
    EXPECT_NE(
        reply.find(
            R"("message": "the model computed a logit that is not finite", "type": "server_error", "param": null, "code": "not_finite")"),
        std::string::npos)
        << reply;
  }
  EXPECT_EQ(n_failed, 1);
  EXPECT_EQ(text_of(chat(kStory)), alone);  // Nothing of it was kept.
}

TEST_F(Faults, AStreamSaysSoAndEnds) {
  plant(1);
  std::string body = kStory;
  body.insert(1, R"("stream": true, )");
  const std::string reply = chat(body);
  EXPECT_TRUE(planted());
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 200 "));
  EXPECT_NE(reply.find(R"("code": "not_finite")"), std::string::npos) << reply;
  EXPECT_NE(reply.find("data: [DONE]"), std::string::npos) << reply;
}

}  // namespace
}  // namespace lily::server
