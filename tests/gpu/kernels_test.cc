// The first kernels against double loops, the same bits in every lane order and build, and what
// they move.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "backend/gpu/emulator/emulator.h"
#include "backend/gpu/kernels/gemm_params.h"
#include "backend/gpu/kernels/gemv_params.h"
#include "backend/gpu/kernels/rms_norm_params.h"
#include "base/bf16.h"

namespace lily::gpu {
namespace {

std::vector<EmulatorOptions> ways() {
  std::vector<EmulatorOptions> list = {{.workers = 2},
                                       {.workers = 1, .order = LaneOrder::kReverse},
                                       {.workers = 2, .order = LaneOrder::kShuffled, .seed = 1},
                                       {.workers = 1, .order = LaneOrder::kShuffled, .seed = 2}};
#if !defined(LILY_GPU_TSAN)
  list.push_back({.observe = true});
#endif
  return list;
}

struct Piece {
  const void* address;
  std::size_t bytes;
  const char* name;
};

// Runs in every way; y must come out the same to the bit.
template <class Params>
std::vector<DispatchRecord> run_all_ways(const char* name, const Params& params, Grid grid,
                                         std::uint32_t threads, const std::vector<Piece>& pieces,
                                         std::vector<float>& y) {
  const Kernel* kernel = find_kernel(name);
  EXPECT_NE(kernel, nullptr) << name;
  std::vector<float> first;
  std::vector<DispatchRecord> records;
  for (const EmulatorOptions& options : ways()) {
    std::fill(y.begin(), y.end(), -7.0f);
    auto emulator = Emulator::create(options).value();
    for (const Piece& p : pieces) emulator->add_memory(p.address, p.bytes, p.name);
    emulator->add_memory(y.data(), y.size() * 4, "y");
    auto result = emulator->run(*kernel, params, grid, threads);
    EXPECT_TRUE(result.has_value()) << result.error().message;
    emulator->barrier();
    if (first.empty()) first = y;
    EXPECT_EQ(std::memcmp(first.data(), y.data(), y.size() * 4), 0)
        << name << ": bits depend on the order of lanes";
    if (options.observe) records = emulator->records();
  }
  return records;
}

float draw(std::uint64_t i) {
  return static_cast<float>(static_cast<double>((i * 0x9e3779b97f4a7c15ull) >> 40) / 16777216.0 -
                            0.5);
}

struct Weights {
  int rows, cols, bits;
  std::vector<std::uint32_t> codes;
  std::vector<std::uint16_t> scales, biases;
  Weights(int r, int c, int b) : rows(r), cols(c), bits(b) {
    codes.resize(static_cast<std::size_t>(r) * c * b / 32);
    for (std::size_t i = 0; i < codes.size(); ++i)
      codes[i] = static_cast<std::uint32_t>((i * 0x9e3779b97f4a7c15ull) >> 29);
    for (std::size_t i = 0; i < static_cast<std::size_t>(r) * c / 64; ++i) {
      scales.push_back(float_to_bf16(draw(2 * i) * 0.1f));
      biases.push_back(float_to_bf16(draw(2 * i + 1)));
    }
  }
  double at(int r, int c) const {
    const std::size_t i = static_cast<std::size_t>(r) * cols + c, per = 32 / bits;
    const double code = codes[i / per] >> (i % per * bits) & ((1u << bits) - 1);
    return bf16_to_float(scales[i / 64]) * code + bf16_to_float(biases[i / 64]);
  }
  std::vector<Piece> pieces() const {
    return {{codes.data(), codes.size() * 4, "codes"},
            {scales.data(), scales.size() * 2, "scales"},
            {biases.data(), biases.size() * 2, "biases"}};
  }
};

std::uint64_t moved(const std::vector<DispatchRecord>& records) {
  std::uint64_t bytes = 0;
  for (const auto& t : records.at(0).traffic) bytes += t.unique_read + t.unique_written;
  return bytes;
}

TEST(Kernels, TheTableIsConsistent) {
  std::set<std::string> names;
  for (const Kernel& k : kernels()) {
    EXPECT_TRUE(names.insert(k.name).second);
    EXPECT_EQ(find_kernel(k.name), &k);
    EXPECT_EQ(k.args_bytes % 8, 0u);
    EXPECT_LE(k.shared_bytes, 32768u);
    EXPECT_NE(k.run, nullptr);
  }
  EXPECT_EQ(find_kernel("nothing"), nullptr);
}

TEST(Kernels, RmsNorm) {
  for (int n : {64, 2048, 1000}) {
    const int rows = 3;
    std::vector<float> x(static_cast<std::size_t>(rows) * n), norm(n), y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = draw(i) * 4;
    for (std::size_t i = 0; i < norm.size(); ++i) norm[i] = draw(i + 77) + 1;
    const RmsNormParams params{x.data(), norm.data(), y.data(), static_cast<uint>(n), 1e-6f};
    run_all_ways("rms_norm", params, {rows}, 256,
                 {{x.data(), x.size() * 4, "x"}, {norm.data(), norm.size() * 4, "norm"}}, y);
    for (int r = 0; r < rows; ++r) {
      double sum = 0;
      for (int i = 0; i < n; ++i) sum += double{x[r * n + i]} * x[r * n + i];
      for (int i = 0; i < n; ++i) {
        const double want = x[r * n + i] / std::sqrt(sum / n + 1e-6) * norm[i];
        ASSERT_NEAR(y[r * n + i], want, 1e-6 * std::abs(want) + 1e-9);
      }
    }
  }
}

TEST(Kernels, Gemv) {
  for (int bits : {4, 8}) {
    for (auto [rows, cols] : {std::pair{8, 64}, {13, 128}, {256, 2048}, {1, 512}}) {
      const Weights w(rows, cols, bits);
      std::vector<float> x(cols), y(rows);
      for (int i = 0; i < cols; ++i) x[i] = draw(i + 3);
      auto pieces = w.pieces();
      pieces.push_back({x.data(), x.size() * 4, "x"});
      const GemvParams params{
          w.codes.data(), w.scales.data(),         w.biases.data(),        x.data(),
          y.data(),       static_cast<uint>(rows), static_cast<uint>(cols)};
      const auto records = run_all_ways(bits == 4 ? "gemv_q4" : "gemv_q8", params,
                                        {static_cast<std::uint32_t>(rows + 7) / 8}, 64, pieces, y);
      for (int r = 0; r < rows; ++r) {
        double want = 0, terms = 0;
        for (int c = 0; c < cols; ++c) {
          want += w.at(r, c) * x[c];
          terms += std::abs(w.at(r, c) * x[c]);
        }
        ASSERT_NEAR(y[r], want, 1e-6 * terms * bits) << rows << "x" << cols << " row " << r;
      }
      if (!records.empty()) {
        EXPECT_EQ(moved(records),
                  w.codes.size() * 4 + w.scales.size() * 4 + x.size() * 4 + y.size() * 4);
      }
    }
  }
}

TEST(Kernels, Gemm) {
  for (int bits : {4, 8}) {
    for (auto [n, rows, cols] : {std::tuple{32, 64, 128}, {5, 70, 64}, {40, 130, 192}}) {
      const Weights w(rows, cols, bits);
      std::vector<float> x(static_cast<std::size_t>(n) * cols),
          y(static_cast<std::size_t>(n) * rows);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = draw(i + 3);
      auto pieces = w.pieces();
      pieces.push_back({x.data(), x.size() * 4, "x"});
      const GemmParams params{w.codes.data(),
                              w.scales.data(),
                              w.biases.data(),
                              x.data(),
                              y.data(),
                              static_cast<uint>(n),
                              static_cast<uint>(rows),
                              static_cast<uint>(cols),
                              0};
      run_all_ways(
          bits == 4 ? "gemm_q4" : "gemm_q8", params,
          {static_cast<std::uint32_t>(rows + 63) / 64, static_cast<std::uint32_t>(n + 31) / 32},
          128, pieces, y);
      for (int i = 0; i < n; ++i) {
        for (int r = 0; r < rows; ++r) {
          double want = 0, terms = 0;
          for (int c = 0; c < cols; ++c) {
            const double product = w.at(r, c) * x[static_cast<std::size_t>(i) * cols + c];
            want += product;
            terms += std::abs(product);
          }
          // Both operands rounded to bf16, half a unit of 2^-8 each at most.
          ASSERT_NEAR(y[static_cast<std::size_t>(i) * rows + r], want, 0.0045 * terms);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lily::gpu
