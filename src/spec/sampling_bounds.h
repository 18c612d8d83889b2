// What the sampling fields may be, whoever says so: a flag, a request, or a checkpoint's generation_config.json.
#pragma once

namespace lily {

struct SamplingBound {
  double low, high;
};

inline constexpr SamplingBound kTemperatureBound{0.0, 100.0};
inline constexpr SamplingBound kTopPBound{1e-9, 1.0};
inline constexpr SamplingBound kMinPBound{0.0, 1.0};
inline constexpr SamplingBound kTopKBound{0.0, 1e9};
inline constexpr SamplingBound kRepetitionPenaltyBound{1e-3, 10.0};
inline constexpr SamplingBound kOtherPenaltyBound{-2.0, 2.0};  // Presence and frequency.

}  // namespace lily
