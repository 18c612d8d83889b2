// Engines as child processes: well, slow, dying, talking nonsense, lying.
#include "measure/engine_process.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "tests/measure/sweep_engines.h"

namespace lily {
namespace {

using testing::HasSubstr;

constexpr SweepPoint kPrefill{SweepKind::kPrefill, 512, 512}, kDecode{SweepKind::kDecode, 64, 16};

Result<std::unique_ptr<EngineProcess>> start(const std::string& command, const Path& folder,
                                             double limit_seconds = 60) {
  return EngineProcess::start(
      {.command = command, .log = folder / "log", .limit_seconds = limit_seconds});
}

TEST(EngineProcess, AsksInTheWordsOfTheProtocol) {
  const Path folder = fresh_folder();
  const auto engine = start(good_engine(folder, "good"), folder);
  ASSERT_TRUE(engine.has_value()) << engine.error().message;
  EXPECT_EQ((*engine)->hello().engine, "fake");
  EXPECT_EQ((*engine)->hello().context_tokens, 1000);
  const auto prefill = (*engine)->measure(kPrefill), decode = (*engine)->measure(kDecode);
  ASSERT_TRUE(prefill.has_value() && decode.has_value());
  EXPECT_NEAR(prefill->rate(), 512 / 0.00001, 1);
  EXPECT_NEAR(decode->rate(), 16 / 0.00001, 1);
  EXPECT_EQ(read_file(folder / "good.asked", 1000).value_or(""),
            "{\"prefill\": 512}\n{\"depth\": 64, \"decode\": 16}\n");
}

// A request that goes wrong: the code, words of the message, and whether more may be asked.
struct Bad {
  const char* name;
  const char* script;
  ErrorCode code;
  const char* words;
  bool alive = false;
};

const Bad kBad[] = {
    {"slow", "sleep 100", ErrorCode::kBusy, "no answer in"},
    {"dying", "read -r line; echo 'out of memory' >&2; exit 3", ErrorCode::kDevice,
     "ended with exit status 3: out of memory"},
    {"killed", "read -r line; kill -9 $$", ErrorCode::kDevice, "ended by signal 9"},
    {"silent", "exec >&-; sleep 100", ErrorCode::kDevice, "closed its output"},
    {"nonsense", "read -r line; echo loading...", ErrorCode::kCorrupt,
     "said 'loading...', expected a JSON object"},
    {"empty", "read -r line; echo '{}'; sleep 100", ErrorCode::kCorrupt,
     "expected seconds above 0"},
    {"lying", "read -r line; echo '{\"seconds\": 1000}'; sleep 100", ErrorCode::kCorrupt,
     "that passed"},
    {"negative", "read -r line; echo '{\"seconds\": -1}'; sleep 100", ErrorCode::kCorrupt,
     "above 0"},
    {"counting", "read -r line; echo '{\"seconds\": 0.00001, \"tokens\": 5000}'; sleep 100",
     ErrorCode::kCorrupt, "1 to 1024 tokens where 512 were asked for"},
    {"endless", "read -r line; head -c 3000000 /dev/zero | tr '\\0' x; sleep 100",
     ErrorCode::kTooLarge, "more than 1 MiB"},
    {"honest", "read -r line; echo '{\"error\": \"no room\"}'; sleep 100", ErrorCode::kUnsupported,
     "no room", true},
};

TEST(EngineProcess, SaysWhatIsWrongWithAnEngine) {
  for (const Bad& bad : kBad) {
    SCOPED_TRACE(bad.name);
    const Path folder = fresh_folder();
    const bool slow = bad.code == ErrorCode::kBusy;
    const auto engine = start(engine_that(folder, bad.name, bad.script), folder, slow ? 0.5 : 60);
    ASSERT_TRUE(engine.has_value()) << engine.error().message;
    const auto timing = (*engine)->measure(kPrefill);
    ASSERT_FALSE(timing.has_value());
    EXPECT_EQ(timing.error().code, bad.code) << timing.error().message;
    EXPECT_THAT(timing.error().message, HasSubstr(bad.words));
    EXPECT_EQ((*engine)->alive(), bad.alive);
  }
}

TEST(EngineProcess, RefusesAHelloThatIsNone) {
  const Path folder = fresh_folder();
  for (const auto& [command, words] :
       {std::pair("false", "exit status 1"), std::pair("echo hello", "expected a JSON object"),
        std::pair("echo '{\"engine\": \"x\"}'", "\"engine\" and \"version\""),
        std::pair("echo '{\"engine\": \"x\", \"version\": \"1\", \"context\": -5}'",
                  "a context of 0 to"),
        std::pair("echo '{\"error\": \"no such model\"}'", "no such model"),
        std::pair("no-such-program-anywhere", "exit status 127")}) {
    const auto engine = start(command, folder);
    ASSERT_FALSE(engine.has_value()) << command;
    EXPECT_THAT(engine.error().message, HasSubstr(words));
  }
}

TEST(EngineProcess, AnAnswerMayBeCancelled) {
  const Path folder = fresh_folder();
  const std::atomic<bool> cancel{true};
  const auto engine = EngineProcess::start({.command = engine_that(folder, "slow", "sleep 100"),
                                            .log = folder / "log",
                                            .limit_seconds = 60,
                                            .cancel = &cancel});
  ASSERT_FALSE(engine.has_value());
  EXPECT_EQ(engine.error().code, ErrorCode::kCancelled);
}

// Its children, too: the group is killed.
TEST(EngineProcess, NothingIsLeftOfAnEngineThatFailed) {
  const Path folder = fresh_folder(), pid = folder / "pid";
  {
    const auto engine =
        start(engine_that(folder, "parent",
                          "sleep 100 & echo $! > " + pid.string() + "; read -r line; echo no"),
              folder);
    ASSERT_TRUE(engine.has_value());
    EXPECT_FALSE((*engine)->measure(kPrefill).has_value());
  }
  const auto text = read_file(pid, 100);
  ASSERT_TRUE(text.has_value());
  const std::string number = text->substr(0, text->find('\n'));
  // Gone, or a zombie that nobody has reaped yet; soon, since it may be a moment until it dies.
  const auto is_gone = [&] {
    const auto status = read_file("/proc/" + number + "/stat", 1000);
    return !status.has_value() || status->find(") Z") != std::string::npos;
  };
  for (int i = 0; i < 1000 && !is_gone(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(is_gone()) << number;
}

}  // namespace
}  // namespace lily
