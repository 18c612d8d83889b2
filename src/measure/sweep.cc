// Running a sweep: whose turn it is, what is skipped, what is done about an engine that fails.
#include "measure/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "measure/engine_process.h"
#include "measure/provenance.h"

namespace lily {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostFailures = 3;  // Of a process; then the engine is left out.

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Tokens that an engine computes for a point.
double cost(const SweepPoint& point) {
  return point.kind == SweepKind::kPrefill ? point.length : point.length + point.tokens;
}

// What the seconds of one engine go to, so that the end can be foretold.
struct Pace {
  double seconds = 0, tokens = 0;
};

struct Contender {
  std::unique_ptr<EngineProcess> process;
  std::vector<SweepPoint> warmed;  // By this process.
  int failures = 0;
  bool is_out = false;
  Pace pace;
};

class Sweep {
 public:
  Sweep(SweepRecord& record, const SweepHooks& hooks)
      : record_(record),
        options_(record.options),
        hooks_(hooks),
        contenders_(record.options.engines.size()) {
    record_.hellos.resize(options_.engines.size());
  }

  Result<void> run() {
    steps_ = sweep_steps(options_);
    std::erase_if(steps_, [&](const SweepStep& step) { return is_made(step); });
    const std::size_t total = steps_.size();
    if (total > 0) LILY_RETURN_IF_ERROR(begin());
    while (!steps_.empty()) {
      const SweepStep step = steps_.front();
      tell(step, total);
      LILY_RETURN_IF_ERROR(take(step));
      std::erase_if(steps_, [&](const SweepStep& s) { return is_made(s) || is_hopeless(s); });
      LILY_RETURN_IF_ERROR(hooks_.save(record_));
    }
    return total > 0 && !contenders_.front().is_out ? measure_ceiling() : Result<void>();
  }

 private:
  const std::string& name(std::size_t engine) const { return options_.engines[engine].name; }

  bool is_made(const SweepStep& step) const {
    return std::any_of(record_.measurements.begin(), record_.measurements.end(),
                       [&](const auto& m) {
                         return m.engine == name(step.engine) && m.point == step.point &&
                                (m.round == step.round || !m.error.empty());
                       });
  }
  bool is_hopeless(const SweepStep& step) const { return contenders_[step.engine].is_out; }

  void tell(const SweepStep& step, std::size_t total) const {
    SweepProgress progress{.done = total - steps_.size(),
                           .total = total,
                           .doing = fmt::format("{}: {}, round {}", name(step.engine),
                                                point_name(step.point), step.round)};
    for (const auto& left : steps_) {
      const Pace& pace = contenders_[left.engine].pace;
      if (pace.tokens > 0) progress.seconds_left += cost(left.point) * pace.seconds / pace.tokens;
    }
    hooks_.progress(progress);
  }

  // The measurement, or its failure, is recorded; only what ends the sweep is an error.
  Result<void> take(const SweepStep& step) {
    const auto start = Clock::now();
    LILY_RETURN_IF_ERROR(rest());
    auto timing = measure(step);
    if (!timing && timing.error().code == ErrorCode::kCancelled) return timing.error();
    Contender& contender = contenders_[step.engine];
    contender.pace.seconds += seconds_since(start);
    contender.pace.tokens += cost(step.point);
    record_.measurements.push_back({.round = step.round,
                                    .engine = name(step.engine),
                                    .point = step.point,
                                    .timing = timing ? *timing : Timing{},
                                    .error = timing ? "" : timing.error().message,
                                    .date = utc_now()});
    if (!timing) blame(step, timing.error());
    return {};
  }

  Result<void> rest() const {
    const auto start = Clock::now();
    while (seconds_since(start) < options_.pause_seconds) {
      if (hooks_.cancel->load()) return Error{ErrorCode::kCancelled, "interrupted"};
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return {};
  }

  void blame(const SweepStep& step, const Error& error) {
    Contender& contender = contenders_[step.engine];
    hooks_.note(
        fmt::format("{}: {}: {}", name(step.engine), point_name(step.point), error.message));
    if (contender.process != nullptr && contender.process->alive()) return;
    const bool started = contender.process != nullptr;
    contender.process.reset();
    if (started && ++contender.failures < kMostFailures) return;
    contender.is_out = true;
    hooks_.note(name(step.engine) + " is left out from here on");
  }

  Result<Timing> measure(const SweepStep& step) {
    LILY_TRY(EngineProcess * process, process_of(step.engine));
    if (const int context = process->hello().context_tokens;
        context > 0 && cost(step.point) + 1 > context) {
      return Error{ErrorCode::kTooLarge, fmt::format("its context holds {} tokens", context)};
    }
    auto& warmed = contenders_[step.engine].warmed;
    const bool is_warm = std::find(warmed.begin(), warmed.end(), step.point) != warmed.end();
    if (!is_warm && cost(step.point) <= options_.warm_up_tokens) {
      LILY_RETURN_IF_ERROR(process->measure(step.point));
      warmed.push_back(step.point);
    }
    return process->measure(step.point);
  }

  // Loaded and greeted; where engines are loaded one at a time, the others have ended.
  Result<EngineProcess*> process_of(std::size_t engine) {
    Contender& contender = contenders_[engine];
    if (contender.process != nullptr && contender.process->alive()) return contender.process.get();
    contender.process.reset();
    for (auto& other : contenders_) {
      if (options_.one_at_a_time) other.process.reset();
    }
    contender.warmed.clear();
    LILY_TRY(auto process, EngineProcess::start({.command = options_.engines[engine].command,
                                                 .log = hooks_.log_folder / (name(engine) + ".log"),
                                                 .limit_seconds = options_.limit_seconds,
                                                 .cancel = hooks_.cancel}));
    LILY_RETURN_IF_ERROR(check_same_engine(engine, process->hello()));
    contender.process = std::move(process);
    return contender.process.get();
  }

  // What was begun with one build is not gone on with by another.
  Result<void> check_same_engine(std::size_t engine, const EngineHello& hello) {
    std::string& known = record_.hellos[engine];
    if (known.empty()) known = hello.json;
    LILY_TRY(const auto before, parse_hello(known));
    const auto same = [](const EngineHello& h) {
      return h.engine + " " + h.version + ", " + h.model;
    };
    if (same(before) == same(hello)) return {};
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("is {}, the sweep was begun with {}", same(hello), same(before))};
  }

  // Without the first engine there is nothing to compare with.
  Result<void> begin() {
    if (const auto first = process_of(0); !first) return with_context(name(0), first.error());
    return measure_ceiling();
  }

  // An engine that cannot say what its machine does is no failure.
  Result<void> measure_ceiling() {
    LILY_TRY(EngineProcess * process, process_of(0));
    const auto ceiling = process->limits();
    if (!ceiling && ceiling.error().code == ErrorCode::kCancelled) return ceiling.error();
    if (!ceiling) return {};
    record_.ceilings.push_back(*ceiling);
    return hooks_.save(record_);
  }

  SweepRecord& record_;
  const SweepOptions& options_;
  const SweepHooks& hooks_;
  std::vector<Contender> contenders_;
  std::vector<SweepStep> steps_;  // That are left.
};

std::vector<SweepPoint> points_of(const SweepOptions& options) {
  std::vector<SweepPoint> out;
  for (const int length : options.lengths) out.push_back({SweepKind::kPrefill, length, length});
  for (const int depth : options.decode_tokens > 0 ? options.depths : std::vector<int>{})
    out.push_back({SweepKind::kDecode, depth, options.decode_tokens});
  return out;
}

}  // namespace

std::vector<SweepStep> sweep_steps(const SweepOptions& options) {
  const auto points = points_of(options);
  const std::size_t n = options.engines.size();
  std::vector<SweepStep> out;
  for (int round = 1; round <= options.rounds; ++round) {
    const auto whose = [&](std::size_t turn) { return round % 2 == 1 ? turn : n - 1 - turn; };
    for (std::size_t i = 0; i < points.size() * n; ++i) {
      const auto [point, turn] = options.one_at_a_time
                                     ? std::pair(i % points.size(), i / points.size())
                                     : std::pair(i / n, i % n);
      out.push_back({round, whose(turn), points[point]});
    }
  }
  return out;
}

Result<void> run_sweep(SweepRecord& record, const SweepHooks& hooks) {
  return Sweep(record, hooks).run();
}

}  // namespace lily
