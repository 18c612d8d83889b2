// What each mechanism is worth: the engine with it and without it in turn, round by round in one
// run. The default measured against itself says what differences mean nothing.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "measure/spread.h"
#include "measure/sweep_point.h"

namespace lily {

// The case that switches nothing.
inline constexpr const char* kControlName = "nothing";

// One thing that can be switched.
struct AblationCase {
  std::string name;
  std::string without;  // What takes its place: "off", "--isa avx2".
  bool is_default = true;
  // The engine with or without it, valid until the next call.
  std::function<Result<Engine*>(bool with)> engine;
};

struct AblationFigure {
  SweepPoint point;
  std::vector<double> with, without;  // Tokens a second, by round.
};

struct AblationResult {
  std::string name, without;
  bool is_default = true;
  double seconds = 0;  // That measuring it took.
  std::vector<AblationFigure> figures = {};
  std::string error = {};  // Why there are none.
};

struct AblationPlan {
  std::vector<SweepPoint> points;
  int rounds = 5;
  const std::atomic<bool>* cancel = nullptr;
};

// kCancelled; what else goes wrong is told in the result.
Result<AblationResult> ablate(const AblationCase& one, const AblationPlan& plan);

// Per cent more tokens a second with it than without, of each round.
std::vector<double> worth_per_cent(const AblationFigure& figure);

enum class Verdict { kHelps, kCosts, kWithin };
const char* verdict_name(Verdict verdict);
// It helps or costs where all of at least three rounds agree and their median is beyond anything
// that `control`, nothing switched, shows at any point of the same kind.
Verdict judge(const AblationFigure& figure, const AblationResult* control);

}  // namespace lily
