// Kernels of quantised products, of every instruction set, against sums written out in double.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "tests/backend/cpu.h"

namespace lily::cpu {
namespace {

using cases::kUnit;
using cases::Matrix;
using cases::Random;

std::vector<Int8Group> packed_int8(const Kernels& kernels, const std::vector<float>& x) {
  std::vector<Int8Group> out(x.size() / kQuantGroup);
  kernels.linear.pack_int8(x.data(), std::ssize(out), out.data());
  return out;
}

std::vector<F32Group> packed_f32(const Kernels& kernels, const std::vector<float>& x) {
  std::vector<F32Group> out(x.size() / kQuantGroup);
  kernels.linear.pack_f32(x.data(), std::ssize(out), out.data());
  return out;
}

template <typename Group>
bool same_bytes(const std::vector<Group>& a, const std::vector<Group>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Group)) == 0;
}

// Rows `in` of x [.., w.cols] times w into rows `out` of y [.., w.rows].
struct Call {
  bool exact = false;
  Epilogue epilogue = Epilogue::kStore;
  std::vector<std::int32_t> in, out = {};
  std::vector<float> weights = {};
  const Matrix* second = nullptr;
};

void multiply(const Kernels& kernels, const Matrix& w, const std::vector<float>& x,
              const Call& call, std::vector<float>& y) {
  const auto blocks = cases::pack(w, WeightLayout::kInterleaved16);
  const auto second =
      call.second != nullptr ? cases::pack(*call.second, WeightLayout::kInterleaved16) : blocks;
  const auto int8 = packed_int8(kernels, x);
  const auto f32 = packed_f32(kernels, x);
  const auto& out = call.out.empty() ? call.in : call.out;
  LinearJob job{};
  job.blocks = blocks.data();
  job.second_blocks = second.data();
  job.n_blocks = (w.rows + kBlockRows - 1) / kBlockRows;
  job.groups = w.cols / kQuantGroup;
  job.bits = w.bits;
  job.n_columns = w.rows;
  job.exact = call.exact;
  job.x = call.exact ? static_cast<const void*>(f32.data()) : int8.data();
  job.rows = {call.in.data(), out.data(), call.weights.data(), std::ssize(call.in)};
  job.y = y.data();
  job.y_stride = w.rows;
  job.epilogue = call.epilogue;
  kernels.linear.multiply(job);
}

std::vector<std::int32_t> first_rows(int n) {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

std::vector<float> product(const Kernels& kernels, const Matrix& w, const std::vector<float>& x,
                           bool exact) {
  const int n = static_cast<int>(x.size()) / w.cols;
  std::vector<float> y(static_cast<std::size_t>(n * w.rows));
  multiply(kernels, w, x, {.exact = exact, .in = first_rows(n)}, y);
  return y;
}

// A sum over the columns and what bounds its rounding: the sum of magnitudes.
struct Sum {
  double value = 0.0, magnitude = 0.0;
};

// x as the int8 kernels see it, worked out here.
double seen(const std::vector<float>& x, std::size_t at) {
  const std::size_t group = at / kQuantGroup * kQuantGroup;
  float m = 0.0f;
  for (std::size_t i = group; i < group + kQuantGroup; ++i) m = std::max(m, std::fabs(x[i]));
  return static_cast<double>(m / 127.0f) * std::nearbyint(x[at] * (127.0f / m));
}

Sum expected(const Matrix& w, int row, const std::vector<float>& x, std::size_t t, bool exact) {
  Sum sum;
  const auto cols = static_cast<std::size_t>(w.cols);
  for (std::size_t c = 0; c < cols; ++c) {
    const double value = exact ? static_cast<double>(x[t * cols + c]) : seen(x, t * cols + c);
    const std::size_t group = (static_cast<std::size_t>(row) * cols + c) / kQuantGroup;
    const double scale = bf16_to_float(w.scales[group]), bias = bf16_to_float(w.biases[group]);
    const auto code = w.codes[static_cast<std::size_t>(row) * cols + c];
    sum.value += (scale * code + bias) * value;
    sum.magnitude +=
        (std::fabs(scale * code) + std::fabs(bias) + 136 * std::fabs(scale)) * std::fabs(value);
  }
  return sum;
}

struct Shape {
  int n_rows, rows, cols, bits;
};

class CpuLinearKernels : public ::testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, CpuLinearKernels,
                         ::testing::Values(Shape{1, 1, 64, 4}, Shape{2, 8, 128, 4},
                                           Shape{3, 24, 64, 8}, Shape{4, 272, 192, 4},
                                           Shape{5, 24, 320, 8}, Shape{7, 16, 512, 4},
                                           Shape{16, 8, 64, 4}, Shape{33, 1, 128, 8},
                                           Shape{70, 40, 128, 4}, Shape{130, 17, 64, 8}));

TEST_P(CpuLinearKernels, EveryEntryIsTheProductWithinItsRounding) {
  const auto [n_rows, rows, cols, bits] = GetParam();
  Random random(5);
  const Matrix w = cases::random_matrix(random, rows, cols, bits);
  const auto x = random.floats(static_cast<std::size_t>(n_rows * cols), -3.0f, 3.0f);
  for (const bool exact : {false, true}) {
    const auto y = product(kernels_portable(), w, x, exact);
    // int8: five roundings a group. Exact: 32 terms in a lane, its sum and two more a group.
    const double roundings = (exact ? 36 : 5) + 2.0 * cols / kQuantGroup;
    for (int t = 0; t < n_rows; ++t) {
      for (int r = 0; r < rows; ++r) {
        const Sum want = expected(w, r, x, static_cast<std::size_t>(t), exact);
        ASSERT_NEAR(y[static_cast<std::size_t>(t * rows + r)], want.value,
                    roundings * kUnit * want.magnitude)
            << t << " " << r << (exact ? " exact" : " int8");
      }
    }
  }
}

TEST_P(CpuLinearKernels, InstructionSetsGiveTheSameBits) {
  const auto [n_rows, rows, cols, bits] = GetParam();
  Random random(6);
  const Matrix w = cases::random_matrix(random, rows, cols, bits);
  const auto x = random.floats(static_cast<std::size_t>(n_rows * cols), -3.0f, 3.0f);
  for (const auto* kernels : supported_kernels()) {
    EXPECT_TRUE(same_bytes(packed_int8(*kernels, x), packed_int8(kernels_portable(), x)))
        << kernels->name;
    EXPECT_EQ(product(*kernels, w, x, false), product(kernels_portable(), w, x, false))
        << kernels->name;
    EXPECT_EQ(product(*kernels, w, x, true), product(kernels_portable(), w, x, true))
        << kernels->name;
  }
}

TEST_P(CpuLinearKernels, ARowAloneGivesTheBitsItGivesAmongOthers) {
  const auto [n_rows, rows, cols, bits] = GetParam();
  Random random(7);
  const Matrix w = cases::random_matrix(random, rows, cols, bits);
  const auto x = random.floats(static_cast<std::size_t>(n_rows * cols));
  for (const auto* kernels : supported_kernels()) {
    for (const bool exact : {false, true}) {
      const auto all = product(*kernels, w, x, exact);
      for (int t = 0; t < n_rows; ++t) {
        const std::vector<float> row(x.begin() + t * cols, x.begin() + (t + 1) * cols);
        const std::vector<float> want(all.begin() + t * rows, all.begin() + (t + 1) * rows);
        ASSERT_EQ(product(*kernels, w, row, exact), want) << kernels->name << " " << t;
      }
    }
  }
}

// A matrix of scale 1 and bias 0 with the given codes.
Matrix plain_matrix(int rows, int cols, int bits, const std::function<int(int)>& code) {
  Matrix m{.rows = rows, .cols = cols, .bits = bits, .codes = {}, .scales = {}, .biases = {}};
  for (int i = 0; i < rows * cols; ++i) m.codes.push_back(static_cast<std::uint8_t>(code(i)));
  const auto groups = static_cast<std::size_t>(rows * cols / kQuantGroup);
  m.scales.assign(groups, float_to_bf16(1.0f));
  m.biases.assign(groups, float_to_bf16(0.0f));
  return m;
}

// With activation scale 1 (the largest magnitude of each group is 127) a result is an integer and
// exact in float.
void expect_exact_dots(const Matrix& w, const std::vector<float>& x) {
  for (const auto* kernels : supported_kernels()) {
    const auto y = product(*kernels, w, x, false);
    for (std::size_t t = 0; t < x.size() / static_cast<std::size_t>(w.cols); ++t) {
      for (int r = 0; r < w.rows; ++r) {
        const double want = expected(w, r, x, t, true).value;
        ASSERT_EQ(y[t * static_cast<std::size_t>(w.rows) + static_cast<std::size_t>(r)], want)
            << kernels->name << " " << t << " " << r;
      }
    }
  }
}

TEST(CpuLinear, IntegerDotsAreExactAtTheExtremes) {
  for (const int bits : {4, 8}) {
    const int most = (1 << bits) - 1;
    for (const int code : {0, 1, most / 2, most}) {
      const Matrix w = plain_matrix(16, 128, bits, [&](int) { return code; });
      const Matrix mixed =
          plain_matrix(16, 128, bits, [&](int i) { return i % 2 == 0 ? most : 0; });
      for (const auto& pattern : std::vector<std::vector<float>>{
               {127}, {-127}, {127, -127}, {-127, 127}, {127, 127, -127, -127}}) {
        std::vector<float> x(5 * 128);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = pattern[i % pattern.size()];
        expect_exact_dots(w, x);
        expect_exact_dots(mixed, x);
      }
    }
  }
}

TEST(CpuLinear, IntegerDotsAreExactOnRandomCodes) {
  Random random(8);
  for (const int bits : {4, 8}) {
    const Matrix w = plain_matrix(48, 192, bits, [&](int) { return random.below(1 << bits); });
    std::vector<float> x(9 * 192);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = i % kQuantGroup == 5 ? 127.0f : static_cast<float>(random.below(255) - 127);
    }
    expect_exact_dots(w, x);
  }
}

TEST(CpuLinear, PacksToTheNearestOf255StepsWithItsSums) {
  Random random(9);
  const auto x = random.floats(640, -2.0f, 2.0f);
  for (const auto* kernels : supported_kernels()) {
    const auto groups = packed_int8(*kernels, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Int8Group& g = groups[i / kQuantGroup];
      EXPECT_EQ(static_cast<double>(g.scale) * g.codes[i % kQuantGroup], seen(x, i));
      EXPECT_LE(std::fabs(seen(x, i) - static_cast<double>(x[i])),
                static_cast<double>(g.scale) * 0.50001);
    }
    for (const Int8Group& g : groups) {
      std::int32_t sums[2] = {0, 0};
      for (int c = 0; c < kQuantGroup; ++c) sums[c % 4 / 2] += g.codes[c];
      EXPECT_EQ(g.centre_all, -8 * (sums[0] + sums[1]));
      EXPECT_EQ(g.centre[0], -8 * sums[0]);
      EXPECT_EQ(g.centre[1], -8 * sums[1]);
      EXPECT_EQ(g.scaled_sum, g.scale * static_cast<float>(sums[0] + sums[1]));
      EXPECT_EQ(*std::max_element(g.codes, g.codes + kQuantGroup,
                                  [](int a, int b) { return std::abs(a) < std::abs(b); }) %
                    127,
                0);
    }
  }
}

TEST(CpuLinear, AGroupOfZerosOrOfNextToNothingAddsNothing) {
  Random random(10);
  const Matrix w = cases::random_matrix(random, 24, 128, 4);
  for (const float tiny : {0.0f, -0.0f, 1e-40f, 7e-31f}) {
    std::vector<float> x = random.floats(128);
    std::fill_n(x.begin(), kQuantGroup, tiny);
    std::vector<float> zeroed = x;
    std::fill_n(zeroed.begin(), kQuantGroup, 0.0f);
    for (const auto* kernels : supported_kernels())
      EXPECT_EQ(product(*kernels, w, x, false), product(*kernels, w, zeroed, false));
  }
}

TEST(CpuLinear, HugeValuesStayFinite) {
  Random random(11);
  const Matrix w = cases::random_matrix(random, 24, 128, 4);
  const auto x = random.floats(128, -1e30f, 1e30f);
  for (const auto* kernels : supported_kernels()) {
    for (const float y : product(*kernels, w, x, false)) EXPECT_TRUE(std::isfinite(y));
  }
}

TEST(CpuLinear, NaNAndInfinityNeverBecomeNumbersAndStayInTheirRow) {
  Random random(12);
  const Matrix w = cases::random_matrix(random, 24, 192, 4);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    for (const std::size_t at : {0u, 17u, 63u, 100u, 191u}) {
      auto x = random.floats(5 * 192);
      x[2 * 192 + at] = bad;
      for (const auto* kernels : supported_kernels()) {
        for (const bool exact : {false, true}) {
          const auto y = product(*kernels, w, x, exact);
          for (std::size_t i = 0; i < y.size(); ++i)
            EXPECT_EQ(std::isfinite(y[i]), i / 24 != 2) << kernels->name << " " << i;
        }
      }
    }
  }
}

TEST(CpuLinear, RowsAreTakenAndPutWhereTheListsSay) {
  Random random(13);
  const Matrix w = cases::random_matrix(random, 24, 128, 4);
  const auto x = random.floats(6 * 128);
  const auto all = product(kernels_portable(), w, x, false);
  for (const auto* kernels : supported_kernels()) {
    std::vector<float> y(5 * 24, cases::kUntouched);
    multiply(*kernels, w, x, {.in = {5, 0, 3}, .out = {1, 4, 0}}, y);
    const auto row = [](const std::vector<float>& of, int r) {
      return cases::rows_of(of, static_cast<int>(of.size()) / 24, r, 1);
    };
    EXPECT_EQ(row(y, 1), row(all, 5));
    EXPECT_EQ(row(y, 4), row(all, 0));
    EXPECT_EQ(row(y, 0), row(all, 3));
    EXPECT_EQ(row(y, 2), std::vector<float>(24, cases::kUntouched));
  }
}

TEST(CpuLinear, EpiloguesAddWeighAndGate) {
  Random random(14);
  const Matrix w = cases::random_matrix(random, 24, 128, 4),
               w2 = cases::random_matrix(random, 24, 128, 4);
  const auto x = random.floats(3 * 128), before = random.floats(3 * 24);
  const std::vector<float> weights = {0.5f, -2.0f, 0.3f};
  const auto a = product(kernels_portable(), w, x, false),
             b = product(kernels_portable(), w2, x, false);
  for (const auto* kernels : supported_kernels()) {
    auto added = before, weighed = before, gated = before;
    multiply(*kernels, w, x, {.epilogue = Epilogue::kAdd, .in = {0, 1, 2}}, added);
    multiply(*kernels, w, x,
             {.epilogue = Epilogue::kAddWeighted, .in = {0, 1, 2}, .weights = weights}, weighed);
    multiply(*kernels, w, x, {.epilogue = Epilogue::kSiluMul, .in = {0, 1, 2}, .second = &w2},
             gated);
    std::vector<float> silu(a.size());
    kernels_portable().math.silu(a.data(), silu.data(), std::ssize(a));
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(added[i], before[i] + a[i]);
      EXPECT_EQ(weighed[i], std::fma(weights[i / 24], a[i], before[i]));
      EXPECT_EQ(gated[i], silu[i] * b[i]);
    }
  }
}

TEST(CpuLinear, DequantisesARowAsOneRounding) {
  Random random(15);
  for (const int bits : {4, 8}) {
    const Matrix w = cases::random_matrix(random, 24, 192, bits);
    const auto blocks = cases::pack(w, WeightLayout::kInterleaved16);
    const std::size_t block_bytes = 3 * record_bytes(bits);
    for (const auto* kernels : supported_kernels()) {
      for (int row = 0; row < 24; ++row) {
        std::vector<float> y(192);
        kernels->linear.dequantise(
            blocks.data() + block_bytes * static_cast<std::size_t>(row / kBlockRows), 3, bits,
            row % kBlockRows, y.data());
        for (int c = 0; c < 192; ++c)
          EXPECT_EQ(y[static_cast<std::size_t>(c)], static_cast<float>(w.at(row, c)));
      }
    }
  }
}

}  // namespace
}  // namespace lily::cpu
