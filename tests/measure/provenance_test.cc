// A measured figure says where it comes from.
#include "measure/provenance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "measure/commit.h"

namespace lily {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

TEST(Provenance, SaysBuildMachineAndDate) {
  const Provenance here = provenance_here(nullptr, {});
  EXPECT_THAT(here.commit, MatchesRegex("unknown|[0-9a-zA-Z._-]+"));
  EXPECT_EQ(here.commit, built_commit());
  EXPECT_GE(here.cores, 1);
  EXPECT_GT(here.memory_bytes, 100u << 20);
  std::tm parts{};
  ASSERT_NE(strptime(here.date.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts), nullptr) << here.date;
  EXPECT_NEAR(static_cast<double>(timegm(&parts)), static_cast<double>(std::time(nullptr)), 60);
}

TEST(Provenance, JsonHasWhatIsKnownAndNothingElse) {
  const Provenance bare{.version = "1", .commit = "unknown", .date = "then", .cores = 2};
  EXPECT_EQ(provenance_json(bare), R"({"version":"1","commit":"unknown","date":"then","cores":2})");
}

TEST(Provenance, ABackendAndOptionsAreSaid) {
  const BackendInfo info{.name = "cuda",
                         .description = "a card",
                         .layout = WeightLayout::kRowMajor,
                         .kv_element_bytes = 2,
                         .clock_hz = 1.98e9};
  const auto json = nlohmann::json::parse(provenance_json(provenance_here(&info, {"--rows=4"})));
  EXPECT_EQ(json["backend"], "cuda");
  EXPECT_EQ(json["description"], "a card");
  EXPECT_EQ(json["device_hz"], 1.98e9);
  EXPECT_FALSE(json.contains("device_memory_hz"));
  EXPECT_EQ(json["options"], nlohmann::json({"--rows=4"}));
  EXPECT_THAT(provenance_text(provenance_here(&info, {})), HasSubstr("a card, 1980 MHz\n"));
}

}  // namespace
}  // namespace lily
