// Recorded answers: hostile files are refused with the place, and scoring refuses what its buffers cannot hold.
#include "engine/golden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/engine/pocket.h"

namespace lily {
namespace {

using ::testing::HasSubstr;

std::string message_of(const std::string& json) {
  const Path file = Path(::testing::TempDir()) / ("golden." + std::to_string(::getpid()) + ".json");
  std::ofstream(file) << json;
  const auto rows = read_golden(file, 4096);
  std::filesystem::remove(file);
  return rows ? "" : rows.error().message;
}

std::string row(const std::string& ids, const std::string& top_ids, const std::string& top_log_probs) {
  return R"({"rows": [{"skill": "x", "prompt_length": 1, "greedy": [], "next_log_prob": [-1.0], "ids": )" + ids +
         R"(, "top_ids": )" + top_ids + R"(, "top_log_probs": )" + top_log_probs + "}]}";
}

TEST(Golden, AGoodRowIsRead) {
  EXPECT_EQ(message_of(row("[1, 2]", "[[1, 2], [1, 2]]", "[[-1, -2], [-1, -2]]")), "");
}

TEST(Golden, BrokenRowsAreNamed) {
  std::string many_ids = "[0", many_probs = "[-1";
  for (int i = 1; i < 3000; ++i) {
    many_ids.append(",").append(std::to_string(i));
    many_probs.append(",-1");
  }
  many_ids.append("],[1, 2]");
  many_probs.append("],[-1, -2]");
  EXPECT_THAT(message_of(row("[1, 2]", std::string("[").append(many_ids).append("]"),
                             std::string("[").append(many_probs).append("]"))),
              HasSubstr("2 .. 20"));
  EXPECT_THAT(message_of(row("[1, 9999]", "[[1, 2], [1, 2]]", "[[-1, -2], [-1, -2]]")), HasSubstr("9999"));
  EXPECT_THAT(message_of(row("[1, 2]", "[[1], [1, 2]]", "[[-1], [-1, -2]]")), HasSubstr("top[0]"));
  EXPECT_THAT(message_of(row("[1, 2, 3]", "[[1, 2], [1, 2]]", "[[-1, -2], [-1, -2]]")), HasSubstr("do not fit"));
  EXPECT_THAT(message_of("{}"), HasSubstr("rows"));
  EXPECT_NE(message_of("nonsense"), "");
}

TEST(Score, RefusesMoreAlternativesThanAreReported) {
  const auto engine = open_or_fail(pocket_options());
  const std::vector<TokenId> ids{300, 301};
  EXPECT_THAT(engine->score({.ids = ids, .first = 0, .n_top = 21}).error().message, HasSubstr("21"));
}

}  // namespace
}  // namespace lily
