// What counts as a difference, and an ablation as a file.
#include "measure/ablation.h"

#include <gmock/gmock.h>

#include "measure/ablation_record.h"
#include "measure/published.h"

namespace lily {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr SweepPoint kPrompt{SweepKind::kPrefill, 512, 512};

AblationFigure figure(std::vector<double> with, std::vector<double> without) {
  return {kPrompt, std::move(with), std::move(without)};
}

TEST(Ablation, WorthIsHowMuchMoreThereIsWithIt) {
  EXPECT_THAT(worth_per_cent(figure({150, 90, 100}, {100, 100, 100})),
              ElementsAre(DoubleNear(50, 1e-9), DoubleNear(-10, 1e-9), DoubleNear(0, 1e-9)));
}

TEST(Ablation, AVerdictNeedsThreeRoundsThatAgree) {
  EXPECT_EQ(judge(figure({110, 111, 112}, {100, 100, 100}), nullptr), Verdict::kHelps);
  EXPECT_EQ(judge(figure({90, 91, 92}, {100, 100, 100}), nullptr), Verdict::kCosts);
  EXPECT_EQ(judge(figure({110, 111, 99}, {100, 100, 100}), nullptr), Verdict::kWithin);
  EXPECT_EQ(judge(figure({110, 111}, {100, 100}), nullptr), Verdict::kWithin);
}

AblationResult control(AblationFigure same, AblationFigure other_kind) {
  other_kind.point = {SweepKind::kDecode, 128, 64};
  return {kControlName, "", true, 1, {std::move(same), std::move(other_kind)}};
}

TEST(Ablation, AVerdictNeedsMoreThanNothingShowsInItsKind) {
  const auto quiet = figure({101, 99, 100}, {100, 100, 100}),
             noisy = figure({120, 80, 100}, {100, 100, 100});
  const auto calm = control(quiet, noisy), wild = control(noisy, quiet);
  const auto measured = figure({110, 111, 112}, {100, 100, 100});
  EXPECT_EQ(judge(measured, &calm), Verdict::kHelps);
  EXPECT_EQ(judge(measured, &wild), Verdict::kWithin);
}

TEST(Ablation, PublishedFiguresStandBesideTheirOwnLength) {
  EXPECT_EQ(published_worth("dequantise_in_tile", kPrompt), 77.4);
  EXPECT_EQ(published_worth("dequantise_in_tile", {SweepKind::kPrefill, 2048, 2048}), std::nullopt);
  EXPECT_EQ(published_worth("block_attention", {SweepKind::kDecode, 32768, 64}), 7.7);
}

// Each is a mechanism, or its row would never be seen.
TEST(Ablation, PublishedFiguresAreOfMechanisms) {
  int n_rows = 0;
  for (const auto& known : kMechanismFields) {
    for (const int length : {512, 2048, 3840, 32768, 65536, 131072}) {
      for (const auto kind : {SweepKind::kPrefill, SweepKind::kDecode})
        n_rows += published_worth(known.name, {kind, length, 1}).has_value() ? 1 : 0;
    }
  }
  EXPECT_EQ(n_rows, 9);
}

AblationRecord some_ablation() {
  AblationRecord out{
      .model = "m", .system = "s", .date = "2026-11-30T12:00:00Z", .provenance = "{}", .rounds = 3};
  out.results.push_back({kControlName, "", true, 1, {figure({100, 101, 99}, {100, 100, 100})}});
  out.results.push_back(
      {"dequantise_in_tile", "off", true, 2, {figure({150, 160, 155}, {100, 100, 100})}});
  out.results.push_back({"large_tiles", "off", false, 2, {}, "no memory"});
  return out;
}

TEST(AblationRecord, IsReadAsItWasWritten) {
  const auto text = ablation_json(some_ablation());
  const auto again = parse_ablation(text);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(ablation_json(*again), text);
}

TEST(AblationRecord, RefusesWhatIsBroken) {
  const auto broken = [](std::string text, const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
    return parse_ablation(text);
  };
  const auto text = ablation_json(some_ablation());
  for (const auto& [from, to] :
       {std::pair("lily ablate 1", "lily ablate 0"),
        std::pair("\"rounds\": 3", "\"rounds\": \"3\""), std::pair("\"mechanisms\"", "\"other\""),
        std::pair("150.0", "-1")}) {
    const auto record = broken(text, from, to);
    ASSERT_FALSE(record.has_value()) << from;
    EXPECT_EQ(record.error().code, ErrorCode::kCorrupt);
  }
}

TEST(AblationRecord, TheTableHasVerdictPublishedFigureAndWhatFailed) {
  const auto text = ablation_text(some_ablation());
  EXPECT_THAT(text, HasSubstr("+55.0 % (+50.0 .. +60.0)"));
  EXPECT_THAT(text, HasSubstr("helps, published +77.4 %"));
  EXPECT_THAT(text, HasSubstr("not measured: no memory"));
}

}  // namespace
}  // namespace lily
