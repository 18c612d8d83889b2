// Kernels of matrices against double loops, the same bits in every lane order and build, and what
// they move.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "backend/gpu/emulator/emulator.h"
#include "backend/gpu/kernels/linear_params.h"
#include "backend/gpu/steps/matrix.h"
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

// y = rmsnorm(x) W^T, or y += x W^T, of n rows.
struct Product {
  Weights w;
  int n;
  bool normed;
  std::vector<float> x, norm, y;
  PassControl control{};

  Product(int n_rows, int rows, int cols, int bits, bool with_norm)
      : w(rows, cols, bits), n(n_rows), normed(with_norm) {
    for (int i = 0; i < n * cols; ++i) x.push_back(draw(i + 3) * 4);
    for (int i = 0; i < cols; ++i) norm.push_back(draw(i + 77) + 1);
    y.resize(static_cast<std::size_t>(n) * rows);
    control.n_rows = n;
  }

  std::vector<DispatchRecord> run(const char* kernel, Grid grid, std::uint32_t threads) {
    LinearParams params{};
    params.parts[0] = {w.codes.data(),
                       w.scales.data(),
                       w.biases.data(),
                       y.data(),
                       static_cast<uint>(w.rows),
                       static_cast<uint>(w.bits),
                       static_cast<uint>(w.rows),
                       0};
    params.control = words_of(&control);
    params.x = x.data();
    params.norm = norm.data();
    params.cols = static_cast<uint>(w.cols);
    params.most = kMaxPassRows;
    params.eps = 1e-6f;
    auto pieces = w.pieces();
    pieces.push_back({x.data(), x.size() * 4, "x"});
    pieces.push_back({norm.data(), norm.size() * 4, "norm"});
    pieces.push_back({&control, sizeof(control), "control"});
    return run_all_ways(kernel, params, grid, threads, pieces, y);
  }

  // The sum, and the sum of its terms' magnitudes. run_all_ways fills y with -7.
  std::pair<double, double> want(int i, int row) const {
    double sum = 0, terms = 0, squares = 0;
    for (int c = 0; c < w.cols; ++c) {
      const double v = x[static_cast<std::size_t>(i) * w.cols + c];
      const double term = w.at(row, c) * v * (normed ? norm[c] : 1.0);
      squares += v * v;
      sum += term;
      terms += std::abs(term);
    }
    if (!normed) return {sum - 7.0, terms + 7.0};
    const double factor = 1.0 / std::sqrt(squares / w.cols + 1e-6);
    return {sum * factor, terms * factor};
  }
  void expect_near(double relative) const {
    for (int i = 0; i < n; ++i) {
      for (int r = 0; r < w.rows; ++r) {
        const auto [sum, terms] = want(i, r);
        ASSERT_NEAR(y[static_cast<std::size_t>(i) * w.rows + r], sum, relative * terms)
            << n << " rows, " << w.rows << "x" << w.cols;
      }
    }
  }
};

TEST(Kernels, LinearFew) {
  for (const bool normed : {true, false}) {
    for (int bits : {4, 8}) {
      for (auto [rows, cols] : {std::pair{8, 64}, {13, 128}, {256, 2048}, {1, 512}}) {
        Product product(1, rows, cols, bits, normed);
        const auto records = product.run(normed ? "linear_few_norm_1" : "linear_few_add_1",
                                         {static_cast<std::uint32_t>(rows + 7) / 8}, 64);
        product.expect_near(1e-6 * bits);
        if (records.empty()) continue;
        const auto& w = product.w;
        const std::size_t read =
            w.codes.size() * 4 + w.scales.size() * 4 + product.x.size() * 4 * (normed ? 2 : 1) + 4;
        EXPECT_EQ(moved(records), read + product.y.size() * 4 * (normed ? 1 : 2));
      }
    }
  }
}

TEST(Kernels, LinearTile) {
  for (const bool normed : {true, false}) {
    for (int bits : {4, 8}) {
      for (auto [n, rows, cols] : {std::tuple{32, 64, 128}, {5, 70, 64}, {40, 130, 192}}) {
        Product product(n, rows, cols, bits, normed);
        product.run(
            normed ? "linear_tile_norm" : "linear_tile_add",
            {static_cast<std::uint32_t>(rows + 63) / 64, static_cast<std::uint32_t>(n + 31) / 32},
            128);
        // Both operands rounded to bf16, half a unit of 2^-8 each at most.
        product.expect_near(0.0045);
      }
    }
  }
}

}  // namespace
}  // namespace lily::gpu
