// The CPU backend for tests, opened once per instruction set and number of threads, with exact
// activations.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/check.h"
#include "tests/backend/cases.h"
#include "tests/backend/reference.h"

namespace lily::cases {

inline constexpr double kUnit = 0x1p-24;  // Half a unit in the last place of a float, relative.

// Sizes that hold every case: those of both specs, and the vocabulary of the real model.
inline ModelSpec largest_spec() {
  ModelSpec spec = pocket_spec();
  spec.shared_width = odd_spec().shared_width;
  spec.vocab_rows = 248320;
  return spec;
}

inline Backend& cpu_backend(const std::string& isa = "", int threads = 2) {
  static std::map<std::pair<std::string, int>, std::unique_ptr<Backend>> backends;
  auto& backend = backends[{isa, threads}];
  if (backend == nullptr) {
    auto opened = cpu::open({.threads = threads, .isa = isa, .activations = Activations::kF32});
    LILY_CHECK(opened.has_value() && (*opened)->prepare(largest_spec(), kMaxPassRows).has_value());
    backend = std::move(*opened);
  }
  return *backend;
}

// The same bits from every instruction set with 1, 2 and 3 threads; returns them.
template <typename Case>
Outputs run_everywhere(const Case& c) {
  const Outputs first = run(cpu_backend("portable", 1), c);
  for (const auto* kernels : cpu::supported_kernels()) {
    for (const int threads : {1, 2, 3}) {
      EXPECT_EQ(run(cpu_backend(std::string(kernels->name), threads), c), first)
          << kernels->name << " " << threads;
    }
  }
  return first;
}

}  // namespace lily::cases
