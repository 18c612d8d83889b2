// Backends measured at the pocket's shape: what is measured is all there, and its figures hang
// together.
#include "measure/backend_limits.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "measure/plausible_bytes.h"
#include "weights/synth_config.h"
#include "weights/synth_image.h"

namespace lily {
namespace {

constexpr int kLayers = 4;  // The last attends.

struct Opened {
  std::unique_ptr<Backend> backend;
  LoadedWeights weights;
};

Opened open(const std::string& name) {
  auto backend = open_backend(name, {.threads = 2, .isa = ""});
  EXPECT_TRUE(backend.has_value()) << backend.error().message;
  const ModelSpec spec = synthetic_spec("pocket", kLayers).value();
  auto weights = synthetic_weights(spec, (*backend)->info().layout, 1);
  EXPECT_TRUE(weights.has_value()) << weights.error().message;
  return {*std::move(backend), *std::move(weights)};
}

BackendLimits measure(const std::string& name) {
  const Opened opened = open(name);
  MachineLimits machine;
  machine.read_all = 1e10;
  machine.integer_all = 1e11;
  auto limits = measure_backend(*opened.backend, opened.weights, machine,
                                {.read_bytes = 1 << 20, .rows = 16, .depth = 70, .repeats = 2});
  EXPECT_TRUE(limits.has_value()) << limits.error().message;
  return *std::move(limits);
}

std::map<std::string, int> calls_of(const KernelTable& table) {
  std::map<std::string, int> calls;
  for (const KernelRow& row : table.rows) calls[row.steps] += row.calls;
  return calls;
}

void expect_plausible(const KernelTable& table) {
  double sum = 0, floors = 0;
  for (const KernelRow& row : table.rows) {
    EXPECT_GT(row.seconds, 0) << row.kernel;
    EXPECT_GT(row.calls, 0) << row.kernel;
    sum += row.seconds;
    floors += row.floor_seconds;
  }
  EXPECT_NEAR(table.sum_seconds, sum, 1e-9);
  EXPECT_NEAR(table.floor_seconds, floors, 1e-9);
  // Nothing overlaps on a processor; the machine may be shared.
  EXPECT_GT(table.sum_seconds, table.pass_seconds / 20);
  EXPECT_LT(table.sum_seconds, table.pass_seconds * 20);
}

void expect_steps(const std::vector<StepRate>& steps) {
  std::map<std::string, int> n;
  for (const StepRate& step : steps) {
    ++n[step.step];
    EXPECT_GT(step.seconds, 0) << step.step;
    EXPECT_GT(step.bytes, 0u) << step.step;
    EXPECT_EQ(step.multiply_adds > 0, step.rows > 0) << step.step;
  }
  EXPECT_EQ(steps.front().step, "copy");
  EXPECT_EQ(n["read"], 1);
  EXPECT_EQ(n["head"], 1);
  EXPECT_EQ(n["attention"], 1);
  EXPECT_EQ(n["head, read only"], 1);
  for (const char* twice : {"projections of delta layers", "projections of attention layers",
                            "output projections", "experts, up", "experts, down"})
    EXPECT_EQ(n[twice], 2) << twice;
}

TEST(BackendLimits, StepsOfAProcessor) {
  const BackendLimits limits = measure("cpu");
  expect_steps(limits.steps);
  EXPECT_GT(limits.launches.pass_seconds, 0);
  EXPECT_GE(limits.rates.bytes_per_second, 1e10);
  EXPECT_GE(limits.rates.multiply_adds_per_second, 1e11);
  for (const StepRate& step : limits.steps) {
    if (step.rows <= 1) continue;
    EXPECT_LE(step.multiply_adds_per_second(), limits.rates.multiply_adds_per_second);
  }
  const std::map<std::string, int> steps = {{"embed", 1},
                                            {"gdn_project", 3},
                                            {"gdn_prepare", 3},
                                            {"gdn_scan", 3},
                                            {"project_residual", 3},
                                            {"attention_project", 1},
                                            {"attention_prepare", 1},
                                            {"attention", 1},
                                            {std::string(kAttentionResidual), 1},
                                            {"route", kLayers},
                                            {"experts_up", kLayers},
                                            {"experts_down", kLayers}};
  ASSERT_EQ(limits.prefill.size(), 1u);
  EXPECT_EQ(calls_of(limits.prefill.front()), steps);
  auto decoded = steps;
  decoded["head"] = decoded["choose"] = 1;
  EXPECT_EQ(calls_of(limits.decode), decoded);
  expect_plausible(limits.decode);
  expect_plausible(limits.prefill.front());
}

TEST(BackendLimits, KernelsOfADevice) {
  const BackendLimits limits = measure("emulator");
  expect_steps(limits.steps);
  EXPECT_GT(limits.rates.bytes_per_second, 0);
  EXPECT_GT(limits.rates.multiply_adds_per_second, 0);
  expect_plausible(limits.decode);
  expect_plausible(limits.prefill.front());
  std::map<std::string, int> kernels;
  for (const KernelRow& row : limits.decode.rows) kernels[row.kernel] += row.calls;
  EXPECT_EQ(kernels["gdn_scan_few"], 3);
  EXPECT_EQ(kernels["experts_few_up"], kLayers);
  EXPECT_EQ(kernels["head_chunks_1"], 1);
  // 8 a layer, embed, the head and two for the choice (docs/KERNELS.md).
  int n = 0;
  for (const auto& [kernel, calls] : kernels) n += calls;
  EXPECT_EQ(n, 8 * kLayers + 4);
}

std::uint32_t xor_of(std::span<const std::byte> bytes) {
  std::uint32_t word = 0;
  for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    std::uint32_t next = 0;
    std::memcpy(&next, &bytes[at], 4);
    word ^= next;
  }
  return word;
}

// What fold leaves in its sink, read back.
std::uint32_t folded(Backend& backend, FoldArgs args) {
  const Buffer sink = *backend.allocate(kFoldWords * 4, "sink");
  args.sink = sink.as<std::uint32_t>();
  EXPECT_TRUE(
      backend.begin({.rows_bound = 1, .n_top = static_cast<int>(args.bytes) + args.matrix.bits}));
  backend.fold(args);
  EXPECT_TRUE(backend.wait(backend.submit()).has_value());
  std::vector<std::byte> words(sink.bytes());
  EXPECT_TRUE(backend.read(sink, 0, words).has_value());
  return xor_of(words);
}

// Rows that are no multiple of a block, a size that is no multiple of a group's share.
void expect_folds(const std::string& name, const std::string& isa) {
  auto backend = open_backend(name, {.threads = 2, .isa = isa});
  ASSERT_TRUE(backend.has_value()) << backend.error().message;
  ASSERT_TRUE((*backend)->prepare(synthetic_spec("pocket", 1).value(), 1).has_value());
  const std::size_t n = 300'000 / 16 * 16;
  const Buffer memory = *plausible_buffer(**backend, n, "memory");
  EXPECT_EQ(folded(**backend, {{}, memory.address(), static_cast<std::int64_t>(n), nullptr}),
            xor_of(plausible_bytes(n)))
      << name << isa;
  for (const int bits : {4, 8}) {
    const WeightLayout layout = (*backend)->info().layout;
    const auto extent = quant_extent(layout, {30, 192, bits});
    const Buffer matrix = *plausible_buffer(**backend, extent.bytes, "matrix");
    std::vector<std::byte> bytes = plausible_bytes(extent.bytes);
    const auto side = [&](std::size_t at) {
      return at > 0 ? matrix.as<std::uint16_t>(at) : nullptr;
    };
    const QuantMatrix m{matrix.address(),
                        side(extent.scales),
                        side(extent.biases),
                        30,
                        192,
                        bits,
                        static_cast<std::uint32_t>(layout)};
    if (layout == WeightLayout::kRowMajor) {  // Between the parts there is padding.
      const std::size_t side_bytes = 30 * 3 * 2,
                        codes = 30 * 192 * static_cast<std::size_t>(bits) / 8;
      std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(codes),
                bytes.begin() + static_cast<std::ptrdiff_t>(extent.scales), std::byte{0});
      std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(extent.scales + side_bytes),
                bytes.begin() + static_cast<std::ptrdiff_t>(extent.biases), std::byte{0});
      std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(extent.biases + side_bytes),
                bytes.end(), std::byte{0});
    }
    EXPECT_EQ(folded(**backend, {m, nullptr, 0, nullptr}), xor_of(bytes)) << name << isa << bits;
  }
}

TEST(Fold, EveryWordIsReadOnce) {
  expect_folds("reference", "");
  expect_folds("emulator", "");
  expect_folds("cpu", "");
  expect_folds("cpu", "portable");
}

}  // namespace
}  // namespace lily
