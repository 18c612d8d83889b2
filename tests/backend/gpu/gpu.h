// The GPU backend for tests, on the emulator, opened once per order of lanes.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>

#include "backend/gpu/emulator_device.h"
#include "backend/gpu/gpu_backend.h"
#include "backend/gpu/steps/steps.h"
#include "base/check.h"
#include "tests/backend/cases.h"
#include "tests/backend/reference.h"

namespace lily::cases {

inline constexpr double kUnit = 0x1p-24;     // Half a unit in the last place of a float, relative.
inline constexpr double kBf16Unit = 0x1p-8;  // Of a value rounded to bf16: docs/NUMERICS.md.

// Sizes that hold every case: those of both specs, and the vocabulary of the real model.
inline ModelSpec largest_gpu_spec() {
  ModelSpec spec = pocket_spec();
  spec.shared_width = odd_spec().shared_width;
  spec.vocab_rows = 248320;
  return spec;
}

// By order of lanes.
inline std::map<gpu::LaneOrder, std::unique_ptr<Backend>>& kept_backends() {
  static std::map<gpu::LaneOrder, std::unique_ptr<Backend>> backends;
  return backends;
}

inline std::unique_ptr<Backend> open_gpu(const gpu::EmulatorOptions& options,
                                         const ModelSpec& spec = largest_gpu_spec(),
                                         const Mechanisms& mechanisms = {},
                                         const gpu::Tuning& tuning = {}) {
#if defined(LILY_GPU_TSAN)
  // Each keeps lanes that are past, and ThreadSanitizer has a limit for all.
  kept_backends().clear();
#endif
  auto device = gpu::EmulatorDevice::create(options);
  LILY_CHECK(device.has_value());
  auto backend = std::make_unique<gpu::GpuBackend>(std::move(*device), mechanisms, tuning);
  LILY_CHECK(backend->prepare(spec, kMaxPassRows).has_value());
  return backend;
}

inline Backend& gpu_backend(gpu::LaneOrder order = gpu::LaneOrder::kForward) {
  const auto found = kept_backends().find(order);
  if (found != kept_backends().end()) return *found->second;
  auto opened = open_gpu({.workers = 2, .order = order, .seed = 7});
  return *(kept_backends()[order] = std::move(opened));
}

#if !defined(LILY_GPU_TSAN)
// Checks every launch: accesses outside buffers, what is touched without having been declared, and
// dependencies with no barrier between. Slow.
inline Backend& observed_backend() {
  static const std::unique_ptr<Backend> backend = open_gpu({.observe = true});
  return *backend;
}
#endif

// The same bits in every order of lanes and groups; returns them.
template <typename Case>
Outputs run_in_every_order(const Case& c) {
  const Outputs first = run(gpu_backend(), c);
  for (const auto order : {gpu::LaneOrder::kReverse, gpu::LaneOrder::kShuffled})
    EXPECT_EQ(run(gpu_backend(order), c), first) << static_cast<int>(order);
  return first;
}

// The outputs of a pass that was recorded for more rows than it has, in the same form (few or
// many).
template <typename Case>
Outputs run_with_spare_rows(Backend& backend, const Case& c) {
  spare_rows = c.control.n_rows <= gpu::kFewRows ? gpu::kFewRows - c.control.n_rows : 30;
  const Outputs outputs = run(backend, c);
  spare_rows = 0;
  return outputs;
}

inline double largest_magnitude(const std::vector<float>& x) {
  double most = 0.0;
  for (const float v : x) most = std::fmax(most, std::fabs(v));
  return most;
}

// Passes of typical_passes(), and of several segments in both forms: few rows and many.
inline std::vector<std::vector<Piece>> mixed_passes() {
  auto passes = typical_passes();
  passes.push_back({{.n_rows = 2, .position = 7, .sequence = 1, .state_in = 2, .state_out = 2},
                    {.n_rows = 1, .position = 63, .sequence = 0, .state_in = -1, .state_out = 0},
                    {.n_rows = 4,
                     .position = 190,
                     .sequence = 2,
                     .state_in = 1,
                     .state_out = 3,
                     .snapshots = 4}});
  passes.push_back(
      {{.n_rows = 1, .position = 3, .sequence = 1, .state_in = 1, .state_out = 1},
       {.n_rows = 33, .position = 40, .sequence = 0, .state_in = 0, .state_out = 2, .snapshots = 3},
       {.n_rows = 2, .position = 0, .sequence = 2, .state_in = -1, .state_out = 36}});
  return passes;
}

}  // namespace lily::cases
