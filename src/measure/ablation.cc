// Rounds with and without, and what they say.
#include "measure/ablation.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "measure/speed.h"

namespace lily {
namespace {

constexpr int kWarmTokens = 4;   // Decoded, so that both control blocks have their recordings.
constexpr int kLeastRounds = 3;  // Two agree by chance every other time.

Result<double> rate_of(SpeedMeter& meter, const SweepPoint& point) {
  if (point.kind == SweepKind::kPrefill) return meter.prefill(point.length);
  LILY_TRY(const auto speed, meter.decode(point.length, point.tokens));
  return speed.tokens_per_second;
}

// A switch forgets recordings: each kind of pass that will be timed runs once before. Those of
// decode are the same at every depth.
Result<void> warm_up(SpeedMeter& meter, const std::vector<SweepPoint>& points) {
  bool decode_is_warm = false;
  for (const auto& point : points) {
    const bool prefill = point.kind == SweepKind::kPrefill;
    if (prefill) LILY_RETURN_IF_ERROR(meter.prefill(point.length));
    if (!prefill && !std::exchange(decode_is_warm, true))
      LILY_RETURN_IF_ERROR(meter.decode(point.length, kWarmTokens));
  }
  return {};
}

Result<void> measure_side(const AblationCase& one, const AblationPlan& plan, bool with,
                          std::vector<AblationFigure>& figures) {
  LILY_TRY(Engine * engine, one.engine(with));
  SpeedMeter meter(*engine, plan.cancel);
  LILY_RETURN_IF_ERROR(warm_up(meter, plan.points));
  for (auto& figure : figures) {
    LILY_TRY(const double rate, rate_of(meter, figure.point));
    (with ? figure.with : figure.without).push_back(rate);
  }
  return {};
}

Result<void> measure_rounds(const AblationCase& one, const AblationPlan& plan,
                            std::vector<AblationFigure>& figures) {
  for (int round = 0; round < plan.rounds; ++round) {
    for (const bool first : {true, false})
      LILY_RETURN_IF_ERROR(measure_side(one, plan, first == (round % 2 == 0), figures));
  }
  return {};
}

}  // namespace

Result<AblationResult> ablate(const AblationCase& one, const AblationPlan& plan) {
  const auto start = std::chrono::steady_clock::now();
  AblationResult out{.name = one.name, .without = one.without, .is_default = one.is_default};
  for (const auto& point : plan.points) out.figures.push_back({point, {}, {}});
  if (auto measured = measure_rounds(one, plan, out.figures); !measured) {
    if (measured.error().code == ErrorCode::kCancelled) return measured.error();
    out.error = measured.error().message;
    out.figures.clear();
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

std::vector<double> worth_per_cent(const AblationFigure& figure) {
  std::vector<double> out;
  for (std::size_t i = 0; i < std::min(figure.with.size(), figure.without.size()); ++i)
    out.push_back(100 * (figure.with[i] / figure.without[i] - 1));
  return out;
}

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHelps:
      return "helps";
    case Verdict::kCosts:
      return "costs";
    case Verdict::kWithin:
      return "within the spread";
  }
  return "";
}

Verdict judge(const AblationFigure& figure, const AblationResult* control) {
  const auto worth = worth_per_cent(figure);
  if (static_cast<int>(worth.size()) < kLeastRounds) return Verdict::kWithin;
  double noise = 0;
  for (const auto& same : control != nullptr ? control->figures : std::vector<AblationFigure>{}) {
    if (same.point.kind != figure.point.kind) continue;
    for (const double by_chance : worth_per_cent(same))
      noise = std::max(noise, std::abs(by_chance));
  }
  const Spread spread = spread_of(worth);
  if (spread.low > 0 && spread.median > noise) return Verdict::kHelps;
  if (spread.high < 0 && -spread.median > noise) return Verdict::kCosts;
  return Verdict::kWithin;
}

}  // namespace lily
