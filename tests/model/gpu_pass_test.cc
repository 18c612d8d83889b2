// Whole passes of the pocket checkpoint through GPU kernels: the same bits in any lane order and in
// any company, and programs whose declared memory and barriers are the true ones.
#include <gtest/gtest.h>

#include "backend/gpu/declared.h"
#include "tests/model/gpu.h"

namespace lily {
namespace {

using gpu::Emulator;
using gpu::LaneOrder;
using gpu::Program;

// Rows [at, at + n) of what a pass left.
Left rows(const Left& all, int at, int n) {
  const auto cut = [&](const auto& from, int width) {
    return std::vector(from.begin() + at * width, from.begin() + (at + n) * width);
  };
  return {cut(all.target_log_prob, 1), cut(all.top_log_probs, PocketOnGpu::kTop),
          cut(all.top_ids, PocketOnGpu::kTop)};
}

// Where the emulator cannot watch (builds with ThreadSanitizer, which watches by itself), the test
// says so.
#define OPEN_OR_SKIP(name, ...)                                        \
  const auto name##_or = PocketOnGpu::open(__VA_ARGS__);               \
  if (!name##_or && name##_or.error().code == ErrorCode::kUnsupported) \
    GTEST_SKIP() << name##_or.error().message;                         \
  ASSERT_TRUE(name##_or.has_value()) << name##_or.error().message;     \
  PocketOnGpu& name = **name##_or

// A prompt, a token, three tokens at once, and all states after them.
struct Series {
  std::vector<Left> left;
  std::vector<std::byte> state, kv;
  bool operator==(const Series&) const = default;
};
Series series(PocketOnGpu& gpu) {
  Series out;
  out.left.push_back(gpu.pass({{.sequence = 0, .position = 0, .n_rows = 41, .from = 0, .to = 0}}));
  out.left.push_back(gpu.pass({{.sequence = 0, .position = 41, .n_rows = 1, .from = 0, .to = 0}}));
  out.left.push_back(gpu.pass({{.sequence = 0, .position = 42, .n_rows = 3, .from = 0, .to = 1}}));
  out.state = gpu.slot(1);
  out.kv = gpu.kv(0, 45);
  return out;
}

TEST(GpuPass, BitsAreTheSameFromRunToRunAndInAnyLaneOrder) {
  OPEN_OR_SKIP(forward_order, {});
  const Series expected = series(forward_order);
  EXPECT_EQ(series(forward_order), expected);
  for (const gpu::EmulatorOptions& options :
       {gpu::EmulatorOptions{.order = LaneOrder::kReverse},
        gpu::EmulatorOptions{.order = LaneOrder::kShuffled, .seed = 1},
        gpu::EmulatorOptions{.workers = 1, .order = LaneOrder::kShuffled, .seed = 2}}) {
    OPEN_OR_SKIP(other, options);
    EXPECT_EQ(series(other), expected)
        << static_cast<int>(options.order) << " seed " << options.seed;
  }
}

TEST(GpuPass, ADecodedRowHasTheSameBitsInAnyCompany) {
  OPEN_OR_SKIP(gpu, {});
  const int lengths[] = {70, 9, 33};
  std::vector<Left> alone;
  std::vector<std::vector<std::byte>> states;
  for (int s = 0; s < 3; ++s) {
    gpu.pass(
        {{.sequence = s, .position = 0, .n_rows = std::min(lengths[s], 64), .from = s, .to = s}});
    if (lengths[s] > 64)
      gpu.pass({{.sequence = s, .position = 64, .n_rows = lengths[s] - 64, .from = s, .to = s}});
    alone.push_back(
        gpu.pass({{.sequence = s, .position = lengths[s], .n_rows = 1, .from = s, .to = 3 + s}}));
    states.push_back(gpu.slot(3 + s));
  }
  const std::vector<std::vector<int>> companies{{2, 0, 1}, {1, 2}, {0, 2}};
  for (const auto& company : companies) {
    std::vector<Part> parts;
    for (const int s : company)
      parts.push_back({.sequence = s, .position = lengths[s], .n_rows = 1, .from = s, .to = 6 + s});
    const Left together = gpu.pass(parts);
    for (int i = 0; i < static_cast<int>(company.size()); ++i) {
      const auto s = static_cast<std::size_t>(company[static_cast<std::size_t>(i)]);
      EXPECT_EQ(rows(together, i, 1), alone[s]) << "sequence " << s << " as row " << i;
      EXPECT_EQ(gpu.slot(6 + static_cast<int>(s)), states[s]) << s;
    }
  }
}

TEST(GpuPass, AFewRowsAtOnceEqualOneAfterTheOther) {
  OPEN_OR_SKIP(gpu, {});
  gpu.pass({{.sequence = 0, .position = 0, .n_rows = 61, .from = 0, .to = 0}});
  std::vector<Left> single;
  std::vector<std::vector<std::byte>> states;
  for (int i = 0; i < 7; ++i) {  // Over the end of a page.
    single.push_back(gpu.pass(
        {{.sequence = 0, .position = 61 + i, .n_rows = 1, .from = i == 0 ? 0 : 1, .to = 1}}));
    states.push_back(gpu.slot(1));
  }
  const auto kv = gpu.kv(0, 68);
  const Left all =
      gpu.pass({{.sequence = 0, .position = 61, .n_rows = 7, .from = 0, .to = 2, .snapshots = 4}});
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(rows(all, i, 1), single[static_cast<std::size_t>(i)]) << i;
    EXPECT_EQ(gpu.slot(4 + i), states[static_cast<std::size_t>(i)]) << i;
  }
  EXPECT_EQ(gpu.slot(2), states.back());
  EXPECT_EQ(gpu.kv(0, 68), kv);
}

// The device checks each replay: what kernels touch was declared, and what depends on each other
// has a barrier between.
TEST(GpuPass, KernelsTouchWhatTheyDeclareAndBarriersOrderThem) {
  OPEN_OR_SKIP(gpu, {.observe = true});
  gpu.pass({{.sequence = 0, .position = 0, .n_rows = 11, .from = 0, .to = 0}});
  gpu.pass({{.sequence = 1, .position = 0, .n_rows = 3, .from = 1, .to = 1, .snapshots = 8},
            {.sequence = 0, .position = 11, .n_rows = 7, .from = 0, .to = 2}});
  gpu.pass({{.sequence = 0, .position = 18, .n_rows = 1, .from = 2, .to = 2}});
  gpu.pass({{.sequence = 1, .position = 3, .n_rows = 1, .from = 1, .to = 3},
            {.sequence = 2, .position = 0, .n_rows = 4, .from = 0, .to = 4, .snapshots = 5}});
  for (const float temperature : {0.0f, 0.7f}) {
    const ChosenToken chosen =
        gpu.choose({.sequence = 0, .position = 19, .n_rows = 1, .from = 2, .to = 3}, temperature);
    EXPECT_TRUE(chosen.token >= 0 && chosen.token < 4096) << chosen.token;
  }
}

// Launches of the two stages beside each barrier, dispatched without it: the emulator sees the
// dependency that it was for.
TEST(GpuPass, WithoutAnyOneOfItsBarriersADecodePassIsFoundOut) {
  OPEN_OR_SKIP(gpu, {.observe = true});
  gpu.pass({{.sequence = 0, .position = 0, .n_rows = 20, .from = 0, .to = 0}});
  gpu.pass({{.sequence = 0, .position = 20, .n_rows = 1, .from = 0, .to = 1}});
  const Program* program = gpu.backend().recorded(PocketOnGpu::key(1));
  ASSERT_NE(program, nullptr);
  const std::size_t n = program->launches().size();
  std::vector<std::size_t> starts{0};
  for (std::size_t i = 1; i < n; ++i) {
    if (program->barrier_before(i)) starts.push_back(i);
  }
  starts.push_back(n);
  ASSERT_EQ(starts.size(), program->stages() + 1);
  const auto done = gpu.device().with_memory([&](Emulator& emulator) -> Result<void> {
    for (std::size_t s = 1; s + 1 < starts.size(); ++s) {
      emulator.clear_records();
      LILY_RETURN_IF_ERROR(gpu::dispatch(emulator, *program, starts[s - 1], starts[s]));
      LILY_RETURN_IF_ERROR(gpu::dispatch(emulator, *program, starts[s], starts[s + 1]));
      const gpu::Launch& first = program->launches()[starts[s]];
      EXPECT_FALSE(emulator.hazards().empty())
          << "the barrier before launch " << starts[s] << ", " << first.kernel->name;
      emulator.barrier();
    }
    return {};
  });
  EXPECT_TRUE(done.has_value()) << done.error().message;
}

}  // namespace
}  // namespace lily
