// The head of a request: what is taken, and what two readers could understand differently.
#include "server/http_head.h"

#include <gtest/gtest.h>

#include "server/chunked_body.h"

namespace lily::server {
namespace {

int status_of(std::string_view text) {
  HttpHead head;
  const auto fault = parse_http_head(text, head);
  return fault ? fault->status : 200;
}

TEST(HttpHead, HasItsPartsTakenApart) {
  HttpHead head;
  ASSERT_FALSE(parse_http_head(
      "POST /v1/models/a%20b?x=1 HTTP/1.1\r\nHost: h\r\nContent-LENGTH: 12\r\nA:  b c \t\r\n\r\n",
      head));
  EXPECT_EQ(head.method, "POST");
  EXPECT_EQ(head.path, "/v1/models/a b");
  EXPECT_EQ(head.query, "x=1");
  EXPECT_EQ(*head.find("a"), "b c");
  EXPECT_EQ(head.find("b"), nullptr);
  EXPECT_EQ(head.body, HttpHead::Body::kLength);
  EXPECT_EQ(head.content_length, 12u);
  EXPECT_TRUE(head.keep_alive);
}

TEST(HttpHead, EndsBehindItsEmptyLine) {
  EXPECT_EQ(head_size("GET / HTTP/1.1\r\n\r\nrest"), 18u);
  EXPECT_EQ(head_size("GET / HTTP/1.1\r\n\r"), 0u);
}

TEST(HttpHead, SaysWhetherTheConnectionGoesOn) {
  const auto goes_on = [](std::string_view text) {
    HttpHead head;
    EXPECT_FALSE(parse_http_head(text, head));
    return head.keep_alive;
  };
  EXPECT_FALSE(goes_on("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(goes_on("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
  EXPECT_FALSE(goes_on("GET / HTTP/1.1\r\nConnection: close\r\n\r\n"));
}

TEST(HttpHead, RefusesWhatIsNotClear) {
  const auto with = [](const std::string& line) {
    return status_of("POST / HTTP/1.1\r\n" + line + "\r\n\r\n");
  };
  EXPECT_EQ(with("Content-Length: 1\r\nContent-Length: 1"), 200);
  EXPECT_EQ(with("Content-Length: 1\r\nContent-Length: 2"), 400);
  EXPECT_EQ(with("Content-Length: 1\r\nTransfer-Encoding: chunked"), 400);
  EXPECT_EQ(with("Transfer-Encoding: chunked\r\nContent-Length: 1"), 400);
  EXPECT_EQ(with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), 400);
  EXPECT_EQ(with("Transfer-Encoding: gzip, chunked"), 501);
  EXPECT_EQ(with("Content-Length: 99999999999999999999"), 400);
  EXPECT_EQ(with("Content-Length:"), 400);
  EXPECT_EQ(with("Content-Encoding: gzip"), 415);
  EXPECT_EQ(with("A\x01: b"), 400);
  EXPECT_EQ(with("A: \x01"), 400);
  EXPECT_EQ(with("no colon"), 400);
  EXPECT_EQ(with(" A: folded"), 400);
  EXPECT_EQ(with("A: b\nB: c"), 400);
  EXPECT_EQ(with("A: b\rB: c"), 400);
}

TEST(HttpHead, RefusesBrokenRequestLines) {
  EXPECT_EQ(status_of(""), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1"), 400);
  EXPECT_EQ(status_of("GET /\r\n\r\n"), 400);
  EXPECT_EQ(status_of("\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/3\r\n\r\n"), 505);
  EXPECT_EQ(status_of("GET / FTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("G@T / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET /a b HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET * HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET /%0 HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET /%00 HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET /\xc3\xbc HTTP/1.1\r\n\r\n"), 400);
}

// The whole body in pieces of `size` bytes.
ChunkedBody::State feed(std::string_view text, std::size_t size, std::string& out,
                        std::string& rest) {
  ChunkedBody body;
  auto state = ChunkedBody::State::kMore;
  while (!text.empty() && state == ChunkedBody::State::kMore) {
    std::string_view piece = text.substr(0, size);
    text.remove_prefix(piece.size());
    state = body.feed(piece, out);
    rest = std::string(piece) + std::string(text);
  }
  return state;
}

TEST(ChunkedBody, IsTheSameInPiecesOfAnySize) {
  constexpr std::string_view kText =
      "3\r\nabc\r\nA;ext=1\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nnext";
  for (std::size_t size = 1; size <= kText.size(); ++size) {
    std::string out, rest;
    EXPECT_EQ(feed(kText, size, out, rest), ChunkedBody::State::kDone);
    EXPECT_EQ(out, "abc0123456789");
    EXPECT_EQ(rest, "next");
  }
}

TEST(ChunkedBody, RefusesBrokenFrames) {
  const std::string long_line = std::string(5000, 'e').insert(0, "3;");
  for (const std::string_view text :
       {std::string_view("\r\n"), std::string_view("x\r\n"), std::string_view("-1\r\n"),
        std::string_view("3\r\nabcd\r\n"), std::string_view("1000000000000000\r\n"),
        std::string_view(long_line)}) {
    std::string out, rest;
    EXPECT_EQ(feed(text, 64, out, rest), ChunkedBody::State::kBroken) << text.substr(0, 20);
  }
}

}  // namespace
}  // namespace lily::server
