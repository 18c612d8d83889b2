// The CPU backend's own functions: error against long double, special values, the same bits in
// every instruction set.
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "backend/cpu/precise.h"
#include "tests/backend/cpu.h"

namespace lily::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using MapFunction = void (*MathKernels::*)(const float*, float*, std::int64_t);
const std::vector<MapFunction> kMaps = {&MathKernels::exp, &MathKernels::sigmoid,
                                        &MathKernels::silu, &MathKernels::softplus,
                                        &MathKernels::rsqrt};

std::vector<float> apply(const Kernels& kernels, MapFunction f, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  (kernels.math.*f)(x.data(), y.data(), std::ssize(x));
  return y;
}

// Any bits: subnormal numbers, infinities and NaN among them, and every exponent.
std::vector<float> random_bits(std::size_t n) {
  cases::Random random(7);
  std::vector<float> x = {0.0f,    -0.0f,    kInfinity, -kInfinity, kNan,    1e-45f, -1e-45f,
                          3.4e38f, -3.4e38f, 88.7f,     88.8f,      -104.0f, -87.4f};
  while (x.size() < n) {
    const auto bits = static_cast<std::uint32_t>(random.below(1 << 16)) << 16 |
                      static_cast<std::uint32_t>(random.below(1 << 16));
    x.push_back(std::bit_cast<float>(bits));
  }
  return x;
}

// Bits, any NaN being like another: which one an operation returns is the processor's choice.
std::vector<std::uint32_t> bits_of(const std::vector<float>& x) {
  std::vector<std::uint32_t> out;
  for (const float v : x) out.push_back(std::bit_cast<std::uint32_t>(std::isnan(v) ? kNan : v));
  return out;
}

// Largest error in units of the last place of the exact result.
double worst_ulp(MapFunction f, float low, float high,
                 const std::function<long double(long double)>& exact) {
  constexpr int kPoints = 200001;
  std::vector<float> x;
  for (int i = 0; i < kPoints; ++i)
    x.push_back(low + (high - low) * static_cast<float>(i) / (kPoints - 1));
  const auto y = apply(*supported_kernels().front(), f, x);
  double worst = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double want = exact(x[i]);
    const auto rounded = static_cast<float>(want);
    const long double ulp = std::nextafter(std::fabs(rounded), kInfinity) - std::fabs(rounded);
    worst = std::max(worst, static_cast<double>(std::fabs(y[i] - want) / ulp));
  }
  return worst;
}

TEST(CpuMath, EveryInstructionSetGivesTheSameBits) {
  const auto x = random_bits(100003);
  for (const auto f : kMaps) {
    const auto want = bits_of(apply(kernels_portable(), f, x));
    for (const auto* table : supported_kernels())
      EXPECT_EQ(bits_of(apply(*table, f, x)), want) << table->name;
  }
}

TEST(CpuMath, ReductionsAndNormsGiveTheSameBits) {
  cases::Random random(3);
  for (const int n : {1, 5, 16, 31, 64, 192, 2048}) {
    const auto x = random.floats(static_cast<std::size_t>(n), -3.0f, 3.0f);
    std::vector<float> want(x.size()), got(x.size());
    const auto& portable = kernels_portable().math;
    portable.rms_norm(x.data(), x.data(), want.data(), n, 1e-6f);
    for (const auto* table : supported_kernels()) {
      EXPECT_EQ(table->math.sum(x.data(), n), portable.sum(x.data(), n));
      EXPECT_EQ(table->math.largest(x.data(), n), *std::max_element(x.begin(), x.end()));
      table->math.rms_norm(x.data(), x.data(), got.data(), n, 1e-6f);
      EXPECT_EQ(got, want);
    }
  }
}

TEST(CpuMath, SumsRunInSixteenLanesAndThenATree) {
  std::vector<float> x(32, 0.0f);
  x[0] = 1e8f;
  x[16] = 3.0f;  // The same lane: 1e8 + 3 is rounded before lane 8 joins.
  x[8] = -1e8f;
  EXPECT_EQ(kernels_portable().math.sum(x.data(), 32), (1e8f + 3.0f) - 1e8f);
}

TEST(CpuMath, Bf16AgreesWithTheBase) {
  const auto x = random_bits(50001);
  for (const auto* table : supported_kernels()) {
    std::vector<Bf16> y(x.size());
    std::vector<float> back(x.size());
    table->math.to_bf16(x.data(), y.data(), std::ssize(x));
    table->math.from_bf16(y.data(), back.data(), std::ssize(x));
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(y[i], float_to_bf16(x[i])) << x[i];
      ASSERT_EQ(std::bit_cast<std::uint32_t>(back[i]),
                std::bit_cast<std::uint32_t>(bf16_to_float(y[i])));
    }
  }
}

TEST(CpuMath, ErrorsStayWithinTwoUnitsOfTheLastPlace) {
  const auto exact_exp = [](long double x) { return std::exp(x); };
  EXPECT_LE(worst_ulp(&MathKernels::exp, -87.0f, 88.7f, exact_exp), 1.1);
  EXPECT_LE(worst_ulp(&MathKernels::exp, -103.9f, -87.0f, exact_exp), 1.1);  // Subnormal results.
  EXPECT_LE(worst_ulp(&MathKernels::exp, -1.0f, 1.0f, exact_exp), 1.1);
  EXPECT_LE(worst_ulp(&MathKernels::sigmoid, -80.0f, 80.0f,
                      [](long double x) { return 1 / (1 + std::exp(-x)); }),
            2.5);
  EXPECT_LE(worst_ulp(&MathKernels::silu, -80.0f, 80.0f,
                      [](long double x) { return x / (1 + std::exp(-x)); }),
            2.5);
  EXPECT_LE(worst_ulp(&MathKernels::softplus, -87.0f, 87.0f,
                      [](long double x) { return std::log1p(std::exp(x)); }),
            2.5);
  EXPECT_LE(
      worst_ulp(&MathKernels::rsqrt, 1e-6f, 100.0f, [](long double x) { return 1 / std::sqrt(x); }),
      1.5);
}

TEST(CpuMath, SpecialValues) {
  const std::vector<float> x = {0.0f, -0.0f, kInfinity, -kInfinity, kNan, 1000.0f, -1000.0f};
  for (const auto* table : supported_kernels()) {
    const auto e = apply(*table, &MathKernels::exp, x);
    EXPECT_EQ(e[0], 1.0f);
    EXPECT_EQ(e[1], 1.0f);
    EXPECT_EQ(e[2], kInfinity);
    EXPECT_EQ(e[3], 0.0f);
    EXPECT_TRUE(std::isnan(e[4]));
    EXPECT_EQ(e[5], kInfinity);
    EXPECT_EQ(e[6], 0.0f);
    const auto s = apply(*table, &MathKernels::softplus, x);
    EXPECT_EQ(s[5], 1000.0f);
    EXPECT_EQ(s[6], 0.0f);
    EXPECT_TRUE(std::isnan(s[4]));
    const auto g = apply(*table, &MathKernels::sigmoid, x);
    EXPECT_EQ(g[5], 1.0f);
    EXPECT_EQ(g[6], 0.0f);
    EXPECT_TRUE(std::isnan(g[4]));
  }
}

TEST(CpuMath, AnglesOfLargePositionsAreRight) {
  const auto frequencies = rope_frequencies({});
  for (const int position : {0, 1, 7, 4095, 131071, 200000, 262143, 1048576}) {
    for (const double f : frequencies) {
      const double angle = position * f;
      const SinCos at = sin_cos(angle);
      EXPECT_NEAR(at.sine, std::sin(angle), 1e-14) << angle;
      EXPECT_NEAR(at.cosine, std::cos(angle), 1e-14) << angle;
    }
  }
  EXPECT_NEAR(sin_cos(-2.5).sine, std::sin(-2.5), 1e-15);
  EXPECT_NEAR(sin_cos(-2.5).cosine, std::cos(-2.5), 1e-15);
}

TEST(CpuMath, LogarithmsAreRight) {
  for (double x = 1e-300; x < 1e300; x *= 1.37) {
    EXPECT_NEAR(natural_log(x), std::log(x), 2e-15 * std::fmax(1.0, std::fabs(std::log(x)))) << x;
  }
  EXPECT_EQ(natural_log(1.0), 0.0);
}

}  // namespace
}  // namespace lily::cpu
