// Results as a file, their medians and ratios, and the same options again.
#include "measure/sweep_record.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "measure/sweep_summary.h"

namespace lily {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

constexpr SweepPoint kAtHundred{SweepKind::kPrefill, 100, 100};

// Seconds of engines a and b in three rounds at one length; b fails at another.
SweepRecord some_record() {
  SweepRecord out;
  out.options.engines = {{"a", "x --y='z'"}, {"b", "c"}};
  out.options.lengths = {100, 200};
  out.options.depths = {};
  out.hellos = {
      R"({"engine":"a","version":"1","model":"m","work":{"weight_bytes":50.0,"multiply_adds":10.0,"head_multiply_adds":1000.0}})",
      ""};
  out.ceilings = {{.read_bytes_per_second = 1000, .multiply_adds_per_second = 3e4, .date = "d"},
                  {.read_bytes_per_second = 2000, .multiply_adds_per_second = 5e4, .date = "e"}};
  const double a[] = {1, 2, 4}, b[] = {4, 4, 12};
  for (int round = 1; round <= 3; ++round) {
    out.measurements.push_back({round, "a", kAtHundred, {a[round - 1], 100}, "", "2026-11-30"});
    out.measurements.push_back({round, "b", kAtHundred, {b[round - 1], 100}, "", "2026-11-30"});
  }
  out.measurements.push_back(
      {1, "b", {SweepKind::kPrefill, 200, 200}, {}, "no \"room\", at all", "d"});
  return out;
}

TEST(SweepRecord, IsReadAsItWasWritten) {
  const auto record = some_record();
  const auto text = record_json(record);
  const auto again = parse_record(text);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(record_json(*again), text);
  EXPECT_TRUE(check_same_options(record.options, again->options).has_value());
}

TEST(SweepRecord, RefusesWhatIsBrokenByItsField) {
  const auto whole = ordered_json::parse(record_json(some_record()));
  const auto error_of = [](const ordered_json& broken) {
    const auto record = parse_record(broken.dump());
    return record ? "none" : record.error().message;
  };
  auto broken = whole;
  broken["schema"] = "lily sweep 2";
  EXPECT_EQ(error_of(broken), "schema: expected 'lily sweep 1'");
  broken = whole;
  broken["options"]["rounds"] = 0;
  EXPECT_THAT(error_of(broken), HasSubstr("options.rounds: expected a number from 1"));
  broken = whole;
  broken["measurements"][0]["seconds"] = -1;
  EXPECT_THAT(error_of(broken), HasSubstr("measurements[].seconds"));
  broken = whole;
  broken["measurements"][0]["kind"] = "both";
  EXPECT_THAT(error_of(broken), HasSubstr("measurements[].kind: expected prefill or decode"));
  broken = whole;
  broken["engines"].push_back(nullptr);
  EXPECT_THAT(error_of(broken), HasSubstr("engines: expected as many"));
  EXPECT_THAT(error_of("text"), HasSubstr("expected a JSON object"));
  EXPECT_EQ(parse_record("{").error().code, ErrorCode::kCorrupt);
}

TEST(SweepRecord, OtherOptionsAreAnotherSweep) {
  SweepOptions before, now;
  now.rounds = 7;
  const auto same = check_same_options(before, now);
  ASSERT_FALSE(same.has_value());
  EXPECT_THAT(same.error().message, HasSubstr("rounds: what was begun there has 3, not 7"));
}

TEST(SweepSummary, TakesMediansAndRatiosWithinARound) {
  const auto rows = summarise(some_record(), SweepKind::kPrefill);
  ASSERT_EQ(rows.size(), 2u);
  const auto& [ours, theirs] = std::tie(rows[0].cells[0], rows[0].cells[1]);
  EXPECT_DOUBLE_EQ(ours.rate->median, 50);
  EXPECT_DOUBLE_EQ(ours.rate->low, 25);
  EXPECT_DOUBLE_EQ(ours.rate->high, 100);
  EXPECT_DOUBLE_EQ(theirs.rate->median, 25);
  // 4, 2 and 3 in the rounds; the medians' own ratio would be 2.
  EXPECT_DOUBLE_EQ(theirs.ratio->median, 3);
  EXPECT_DOUBLE_EQ(theirs.ratio->low, 2);
  EXPECT_DOUBLE_EQ(theirs.ratio->high, 4);
  // 4e4 multiply-adds a second over 10 + 1000 / 100 a token.
  EXPECT_DOUBLE_EQ(rows[0].ceiling, 2000);
  const auto mean = mean_ratio(rows, 1);
  EXPECT_EQ(mean.n_rows, 1);
  EXPECT_DOUBLE_EQ(mean.mean, 3);
}

TEST(SweepSummary, SaysTheMeanInASentence) {
  const auto text = summary_text(some_record());
  EXPECT_THAT(text, HasSubstr("a beside b: 3.00 x in prefill over 1 length (3.00 .. 3.00)"));
  EXPECT_THAT(text, HasSubstr("failed"));
}

TEST(SweepSummary, ADecodedTokenReadsItsPositions) {
  const EngineWork work{.weight_bytes = 100, .state_bytes = 20, .kv_bytes_per_position = 2};
  const MachineCeiling machine{
      .read_bytes_per_second = 14000, .multiply_adds_per_second = 0, .date = ""};
  EXPECT_DOUBLE_EQ(ceiling_rate({SweepKind::kDecode, 5, 10}, work, machine), 100);
  EXPECT_DOUBLE_EQ(ceiling_rate({SweepKind::kDecode, 5, 10}, {}, machine), 0);
}

TEST(SweepRecord, LinesForSpreadsheetsQuoteTheirText) {
  const auto csv = record_csv(some_record());
  EXPECT_THAT(csv, HasSubstr("prefill,100,100,a,1,1.000000,100.00,\n"));
  EXPECT_THAT(csv, HasSubstr("prefill,200,0,b,1,,,\"no \"\"room\"\", at all\"\n"));
}

}  // namespace
}  // namespace lily
