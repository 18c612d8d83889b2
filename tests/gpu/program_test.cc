// Programs: where barriers stand, and that there is none too many and none too few.
#include "backend/gpu/program.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"

namespace lily::gpu {
namespace {

constexpr std::size_t kCells = 6, kCellBytes = 16;
unsigned char memory[kCells * kCellBytes];
const Kernel kNothing{"nothing", 0, 0, 32, nullptr, nullptr};

Range cell(std::size_t i) {
  return {memory + i * kCellBytes, kCellBytes};
}

Launch launch(std::vector<Range> reads, std::vector<Range> writes) {
  return {&kNothing, {}, {}, 32, std::move(reads), std::move(writes)};
}

Program program_of(const std::vector<Launch>& launches) {
  Program program;
  for (const Launch& l : launches) program.add(l);
  return program;
}

std::vector<bool> barriers(const std::vector<Launch>& launches) {
  const Program program = program_of(launches);
  std::vector<bool> out;
  for (std::size_t i = 0; i < launches.size(); ++i) out.push_back(program.barrier_before(i));
  return out;
}

TEST(Program, WhatIsReadAfterItWasWrittenWaits) {
  EXPECT_EQ(barriers({launch({}, {cell(0)}), launch({cell(0)}, {cell(1)})}),
            (std::vector{false, true}));
}

TEST(Program, WhatIsWrittenAfterItWasReadOrWrittenWaits) {
  EXPECT_EQ(barriers({launch({cell(0)}, {cell(1)}), launch({}, {cell(0)})}),
            (std::vector{false, true}));
  EXPECT_EQ(barriers({launch({}, {cell(0)}), launch({}, {cell(0)})}), (std::vector{false, true}));
}

TEST(Program, ReadersOfTheSameMemoryAndStrangersRunTogether) {
  EXPECT_EQ(barriers({launch({cell(0)}, {cell(1)}), launch({cell(0)}, {cell(2)}),
                      launch({cell(3)}, {cell(4)})}),
            (std::vector{false, false, false}));
}

TEST(Program, NeighboursDoNotOverlapAndOneByteDoes) {
  EXPECT_EQ(barriers({launch({}, {cell(0)}), launch({cell(1)}, {})}), (std::vector{false, false}));
  const Range across{memory + kCellBytes - 1, 2};
  EXPECT_EQ(barriers({launch({}, {cell(0)}), launch({across}, {})}), (std::vector{false, true}));
}

TEST(Program, OneBarrierServesAllThatFollow) {
  const std::vector<Launch> launches{launch({}, {cell(0)}), launch({}, {cell(1)}),
                                     launch({cell(0)}, {cell(2)}), launch({cell(1)}, {cell(3)}),
                                     launch({cell(2), cell(3)}, {cell(4)})};
  EXPECT_EQ(barriers(launches), (std::vector{false, false, true, false, true}));
  EXPECT_EQ(program_of(launches).stages(), 3u);
  EXPECT_EQ(program_of(launches).barriers(), 2u);
}

TEST(Program, NoRangeAndIndirectOnesDependOnNothing) {
  const Range none{nullptr, 64};
  EXPECT_EQ(barriers({launch({kIndirect}, {kIndirect, none}),
                      launch({none, kIndirect}, {kIndirect, cell(0)})}),
            (std::vector{false, false}));
}

TEST(Program, BarriersEverywhereWhereTheyAreAskedFor) {
  Program program(Barriers::kEverywhere);
  for (int i = 0; i < 3; ++i) program.add(launch({cell(0)}, {}));
  EXPECT_EQ(program.barriers(), 2u);
  EXPECT_EQ(program.stages(), 3u);
  EXPECT_TRUE(!program.barrier_before(0) && program.barrier_before(1) && program.barrier_before(2));
}

TEST(Program, NamesTheMemoryThatItsLaunchesTouch) {
  const Program program = program_of({launch({cell(1)}, {cell(3)})});
  EXPECT_TRUE(program.names({memory, sizeof(memory)}));
  EXPECT_TRUE(program.names({cell(3).address, 1}));
  EXPECT_FALSE(program.names({cell(2).address, kCellBytes}));
}

std::vector<Launch> random_launches(std::uint64_t seed) {
  std::uint64_t at = 0;
  const auto pick = [&](std::size_t n) {
    return static_cast<std::size_t>(uniform_draw(seed, at++) * static_cast<float>(n));
  };
  std::vector<Launch> out(2 + pick(9), launch({}, {}));
  for (Launch& l : out) {
    for (auto n = pick(3); n > 0; --n) l.reads.push_back(cell(pick(kCells)));
    for (auto n = pick(3); n > 0; --n) l.writes.push_back(cell(pick(kCells)));
  }
  return out;
}

bool stage_is_free(const std::vector<Launch>& launches, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    for (std::size_t j = begin; j < i; ++j) {
      if (conflict(launches[j], launches[i])) return false;
    }
  }
  return true;
}

// The least number of stages of launches [0, n), over all ways to cut them.
std::size_t least_stages(const std::vector<Launch>& launches) {
  std::vector<std::size_t> least{0};
  for (std::size_t end = 1; end <= launches.size(); ++end) {
    std::size_t best = SIZE_MAX;
    for (std::size_t begin = 0; begin < end; ++begin) {
      if (stage_is_free(launches, begin, end)) best = std::min(best, least[begin] + 1);
    }
    least.push_back(best);
  }
  return least.back();
}

TEST(Program, AnyLaunchesHaveAsFewStagesAsTheirOrderAllowsAndEveryBarrierIsNeeded) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const auto launches = random_launches(seed);
    const Program program = program_of(launches);
    std::vector<std::size_t> starts{0};
    for (std::size_t i = 1; i < launches.size(); ++i) {
      if (program.barrier_before(i)) starts.push_back(i);
    }
    starts.push_back(launches.size());
    EXPECT_EQ(program.stages(), starts.size() - 1);
    EXPECT_EQ(program.stages(), least_stages(launches)) << seed;
    for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
      EXPECT_TRUE(stage_is_free(launches, starts[s], starts[s + 1])) << seed;
      if (s == 0) continue;
      EXPECT_FALSE(stage_is_free(launches, starts[s - 1], starts[s + 1])) << seed;
    }
  }
}

}  // namespace
}  // namespace lily::gpu
