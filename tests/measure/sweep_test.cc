// Whose turn it is, what is recorded, what is done about engines that fail, and going on after a
// stop.
#include "measure/sweep.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "measure/sweep_plot.h"
#include "measure/sweep_summary.h"
#include "tests/measure/sweep_engines.h"

namespace lily {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SweepOptions small_options(std::vector<SweepEngine> engines) {
  SweepOptions out;
  out.engines = std::move(engines);
  out.lengths = {64, 128};
  out.depths = {32};
  out.decode_tokens = 8;
  out.rounds = 2;
  out.warm_up_tokens = 0;
  return out;
}

std::string order_of(const SweepOptions& options) {
  std::string out;
  for (const auto& step : sweep_steps(options)) {
    const auto& [kind, length, tokens] = step.point;
    out += options.engines[step.engine].name + (kind == SweepKind::kPrefill ? "" : "@") +
           std::to_string(length) + " ";
  }
  return out;
}

TEST(SweepOrder, EnginesTakeTurnsAndTheFirstIsLastInTheNextRound) {
  auto options = small_options({{"a", ""}, {"b", ""}});
  EXPECT_EQ(order_of(options), "a64 b64 a128 b128 a@32 b@32 b64 a64 b128 a128 b@32 a@32 ");
  options.one_at_a_time = true;
  EXPECT_EQ(order_of(options), "a64 a128 a@32 b64 b128 b@32 b64 b128 b@32 a64 a128 a@32 ");
  options.decode_tokens = 0;
  options.rounds = 1;
  EXPECT_EQ(order_of(options), "a64 a128 b64 b128 ");
}

// Runs a sweep in a folder and remembers what it said.
struct Trial {
  Path folder;
  SweepRecord record;
  std::atomic<bool> cancel{false};
  int stop_before = -1;  // Of the measurements of this run.
  std::vector<std::string> notes = {};
  std::vector<double> shares = {};

  Result<void> go() {
    int begun = 0;
    return run_sweep(
        record, {.cancel = &cancel,
                 .save = [&](const auto& now) { return save_record(folder, now); },
                 .progress =
                     [&](const SweepProgress& p) {
                       if (begun++ == stop_before) cancel = true;
                       shares.push_back(static_cast<double>(p.done) / static_cast<double>(p.total));
                     },
                 .note = [&](const std::string& words) { notes.push_back(words); },
                 .log_folder = folder});
  }
};

TEST(Sweep, MeasuresEveryPointOfEveryEngineOnceARound) {
  const Path folder = fresh_folder();
  Trial run{.folder = folder,
            .record = {.options = small_options(
                           {{"a", good_engine(folder, "a")}, {"b", good_engine(folder, "b")}})}};
  ASSERT_TRUE(run.go().has_value());
  EXPECT_EQ(run.record.measurements.size(), 12u);
  EXPECT_TRUE(run.notes.empty());
  EXPECT_EQ(run.shares.front(), 0);
  const auto asked = read_file(folder / "a.asked", 10000).value_or("");
  EXPECT_EQ(std::count(asked.begin(), asked.end(), '\n'), 6 + 2)
      << "and its limits before and after";
}

TEST(Sweep, ShortPointsAreWarmedOnceAProcess) {
  const Path folder = fresh_folder();
  Trial run{.folder = folder,
            .record = {.options = small_options({{"a", good_engine(folder, "a")}})}};
  run.record.options.warm_up_tokens = 64;
  ASSERT_TRUE(run.go().has_value());
  const auto asked = read_file(folder / "a.asked", 10000).value_or("");
  const auto times = [&](const std::string& request) {
    int n = 0;
    for (auto at = asked.find(request); at != asked.npos; at = asked.find(request, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(times("{\"prefill\": 64}"), 3);
  EXPECT_EQ(times("{\"prefill\": 128}"), 2);
  EXPECT_EQ(times("{\"depth\": 32"), 3);
}

TEST(Sweep, GoesOnWithoutThePointsThatAPeerFailsAt) {
  const Path folder = fresh_folder();
  const std::string choosy = engine_that(
      folder, "choosy",
      R"(while read -r line; do case "$line" in *128*) exit 7;; *) echo '{"seconds": 0.00001}';; esac; done)");
  Trial run{.folder = folder,
            .record = {.options = small_options(
                           {{"good", good_engine(folder, "good")}, {"choosy", choosy}})}};
  ASSERT_TRUE(run.go().has_value());
  ASSERT_EQ(run.notes.size(), 1u);
  EXPECT_THAT(run.notes[0], HasSubstr("choosy: prefill of 128: ended with exit status 7"));
  const auto rows = summarise(run.record, SweepKind::kPrefill);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_TRUE(rows[0].cells[1].ratio.has_value());
  EXPECT_FALSE(rows[1].cells[1].rate.has_value());
  EXPECT_THAT(rows[1].cells[1].error, HasSubstr("exit status 7"));
  EXPECT_TRUE(summarise(run.record, SweepKind::kDecode)[0].cells[1].rate.has_value());
}

TEST(Sweep, LeavesOutAPeerThatCannotBeStartedOrFailsAtEverything) {
  const Path folder = fresh_folder();
  const std::string dying = engine_that(folder, "dying", "read -r line");
  Trial run{.folder = folder,
            .record = {
                .options = small_options(
                    {{"good", good_engine(folder, "good")}, {"none", "false"}, {"dying", dying}})}};
  ASSERT_TRUE(run.go().has_value());
  EXPECT_THAT(run.notes, testing::Contains("none is left out from here on"));
  EXPECT_THAT(run.notes, testing::Contains("dying is left out from here on"));
  const auto good = std::count_if(run.record.measurements.begin(), run.record.measurements.end(),
                                  [](const auto& m) { return m.error.empty(); });
  EXPECT_EQ(good, 6);
}

// Without limits there is no ceiling; the engine is started again.
TEST(Sweep, AnEngineThatDiesOfLimitsIsMeasuredAllTheSame) {
  const Path folder = fresh_folder();
  const std::string choosy = engine_that(
      folder, "choosy",
      R"(while read -r line; do case "$line" in *limits*) exit 7;; *) echo '{"seconds": 0.00001}';; esac; done)");
  Trial run{.folder = folder, .record = {.options = small_options({{"choosy", choosy}})}};
  ASSERT_TRUE(run.go().has_value());
  EXPECT_TRUE(run.notes.empty());
  EXPECT_EQ(run.record.measurements.size(), 6u);
  EXPECT_TRUE(run.record.ceilings.empty());
}

TEST(Sweep, EndsWhereTheFirstEngineCannotBeStarted) {
  const Path folder = fresh_folder();
  Trial run{.folder = folder, .record = {.options = small_options({{"first", "false"}})}};
  const auto ran = run.go();
  ASSERT_FALSE(ran.has_value());
  EXPECT_THAT(ran.error().message, HasSubstr("first: ended with exit status 1"));
}

TEST(Sweep, APointBeyondAContextIsToldNotTried) {
  const Path folder = fresh_folder();
  Trial run{.folder = folder,
            .record = {.options = small_options({{"a", good_engine(folder, "a")}})}};
  run.record.options.lengths = {64, 4096};
  ASSERT_TRUE(run.go().has_value());
  EXPECT_THAT(run.notes, ElementsAre(HasSubstr("prefill of 4096: its context holds 1000 tokens")));
  EXPECT_THAT(read_file(folder / "a.asked", 10000).value_or(""), testing::Not(HasSubstr("4096")));
}

TEST(Sweep, GoesOnWhereItWasStopped) {
  const Path folder = fresh_folder();
  const auto options =
      small_options({{"a", good_engine(folder, "a")}, {"b", good_engine(folder, "b")}});
  Trial first{.folder = folder, .record = {.options = options}, .stop_before = 5};
  const auto stopped = first.go();
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  auto kept = load_record(folder);
  ASSERT_TRUE(kept.has_value()) << kept.error().message;
  EXPECT_EQ(kept->measurements.size(), 5u);
  Trial second{.folder = folder, .record = *kept};
  ASSERT_TRUE(second.go().has_value());
  ASSERT_EQ(second.record.measurements.size(), 12u);
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_EQ(second.record.measurements[i].date, kept->measurements[i].date);
  EXPECT_EQ(summarise(second.record, SweepKind::kPrefill).size(), 2u);
  Trial third{.folder = folder, .record = second.record};
  ASSERT_TRUE(third.go().has_value());
  EXPECT_TRUE(third.shares.empty()) << "nothing is left to measure";
}

TEST(Sweep, DoesNotGoOnWithAnotherBuild) {
  const Path folder = fresh_folder();
  Trial first{.folder = folder,
              .record = {.options = small_options({{"a", good_engine(folder, "a")}})},
              .stop_before = 2};
  EXPECT_FALSE(first.go().has_value());
  Trial second{.folder = folder, .record = first.record};
  second.record.hellos[0] = R"({"engine": "fake", "version": "0", "model": "m"})";
  const auto ran = second.go();
  ASSERT_FALSE(ran.has_value());
  EXPECT_THAT(ran.error().message, HasSubstr("is fake 1, m, the sweep was begun with fake 0, m"));
}

}  // namespace
}  // namespace lily
