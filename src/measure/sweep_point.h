// The words of a sweep: what is measured at one length, what comes of it, and what bounds it.
#pragma once

#include <cstdint>
#include <string>

namespace lily {

enum class SweepKind { kPrefill, kDecode };

struct SweepPoint {
  SweepKind kind = SweepKind::kPrefill;
  int length = 0;  // Of the prompt; for decode the positions before the first token that counts.
  int tokens = 0;  // That are timed: the prompt's, or the generated ones.
  bool operator==(const SweepPoint&) const = default;
};

struct Timing {
  double seconds = 0;
  int tokens = 0;  // As counted by the engine.
  double rate() const { return tokens / seconds; }
};

// What a token costs, as bytes that are read and multiply-adds; all 0: not known.
struct EngineWork {
  double weight_bytes = 0, state_bytes = 0, kv_bytes_per_position = 0;
  double multiply_adds = 0;       // A token.
  double head_multiply_adds = 0;  // A prompt, or a generated token.
};

// Both 0: not known.
struct MachineCeiling {
  double read_bytes_per_second = 0, multiply_adds_per_second = 0;
  std::string date;  // When it was measured.
};

// Tokens a second at most: the matrix products of a prompt at the machine's rate, or the bytes of a
// token at its read rate. 0: not known.
double ceiling_rate(const SweepPoint& point, const EngineWork& work, const MachineCeiling& machine);

// "prefill of 512", "decode at 4096"
std::string point_name(const SweepPoint& point);

}  // namespace lily
