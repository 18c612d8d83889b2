// Keys, names and sites.
#include "server/gate.h"

#include <gtest/gtest.h>

namespace lily::server {
namespace {

HttpHead head_with(std::vector<std::pair<std::string, std::string>> headers,
                   std::string method = "POST") {
  HttpHead head;
  head.method = std::move(method);
  head.headers = std::move(headers);
  return head;
}

TEST(Gate, ComparesKeysWholly) {
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  EXPECT_FALSE(equal_in_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_in_constant_time("ab", "abc"));
  EXPECT_FALSE(equal_in_constant_time("abcabc", "abc"));
  EXPECT_FALSE(equal_in_constant_time("a", ""));
}

TEST(Gate, TakesTheKeyFromEitherHeader) {
  const Gate gate({.api_key = "secret", .origins = {}, .host = {}});
  EXPECT_FALSE(gate.check_key(head_with({{"authorization", "Bearer secret"}})));
  EXPECT_FALSE(gate.check_key(head_with({{"x-api-key", "secret"}})));
  EXPECT_EQ(gate.check_key(head_with({{"authorization", "secret"}}))->status, 401);
  EXPECT_EQ(gate.check_key(head_with({}))->status, 401);
  EXPECT_FALSE(Gate({}).check_key(head_with({})));
}

TEST(Gate, KnowsItsOwnNames) {
  const Gate gate({.api_key = {}, .origins = {}, .host = "box.local"});
  for (const char* host :
       {"localhost", "localhost:8080", "127.0.0.1:1", "[::1]:1", "a.localhost", "box.local:80"}) {
    EXPECT_FALSE(gate.check_caller(head_with({{"host", host}}))) << host;
  }
  EXPECT_EQ(gate.check_caller(head_with({{"host", "evil.example"}}))->status, 403);
  EXPECT_FALSE(Gate({.api_key = "k", .origins = {}, .host = {}})
                   .check_caller(head_with({{"host", "evil.example"}})));
}

TEST(Gate, LetsNamedSitesIn) {
  const Gate gate({.api_key = {}, .origins = {"https://a.example"}, .host = {}});
  const auto from = [](const char* origin, const char* type) {
    return head_with({{"host", "localhost:1"}, {"origin", origin}, {"content-type", type}});
  };
  EXPECT_FALSE(gate.check_caller(from("https://a.example", "text/plain")));
  EXPECT_FALSE(gate.check_caller(from("http://localhost:1", "text/plain")));
  EXPECT_EQ(gate.check_caller(from("https://b.example", "text/plain"))->status, 403);
  // A browser would have asked before sending this, and would have been told no.
  EXPECT_FALSE(gate.check_caller(from("https://b.example", "application/json")));
  EXPECT_TRUE(gate.cors_headers(from("https://b.example", "")).empty());
  EXPECT_FALSE(gate.cors_headers(from("https://a.example", "")).empty());
}

}  // namespace
}  // namespace lily::server
