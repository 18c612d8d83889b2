// Metal's device, computing: memory, kernels, replays, what it says of itself.
#include <chrono>
#include <cmath>
#include <thread>

#include "tests/metal/metal.h"

namespace lily::gpu::metal {
namespace {

using ::testing::HasSubstr;

TEST_F(MetalDeviceTest, AProgramIsReplayedAndItsResultsAreRead) {
  open();
  submit(1);
  EXPECT_EQ(wait(1), "");
  expect_normed(y_);
  expect_normed(z_);
}

TEST_F(MetalDeviceTest, ARecordingIsReplayedWithWhatIsWrittenMeanwhile) {
  open();
  const auto recording = *device_->build(two_norms());
  device_->submit(recording, 1);
  EXPECT_EQ(wait(1), "");
  write(norm_, std::vector<float>(kWidth, 4.0f));
  device_->submit(recording, 2);
  EXPECT_EQ(wait(2), "");
  expect_normed(z_, 4.0);
}

TEST_F(MetalDeviceTest, PassesAreUnderWayTogetherAndEndInOrder) {
  open();
  fake_metal::set_faults({.delay_ms = 50});
  const auto start = std::chrono::steady_clock::now();
  for (Ticket t = 1; t <= 4; ++t) submit(t);
  EXPECT_LT(seconds_since(start), 0.1);
  EXPECT_EQ(wait(1), "");
  EXPECT_LT(fake_metal::command_buffers_begun(), 4);
  EXPECT_EQ(wait(4), "");
  EXPECT_EQ(fake_metal::command_buffers_begun(), 4);
}

TEST_F(MetalDeviceTest, MorePassesThanAQueueHoldsAreTaken) {
  open();
  const auto recording = *device_->build(two_norms());
  for (Ticket t = 1; t <= 100; ++t) device_->submit(recording, t);
  EXPECT_EQ(wait(100), "");
  EXPECT_EQ(fake_metal::command_buffers_begun(), 100);
}

TEST_F(MetalDeviceTest, TimingTakesACommandBufferALaunchAndTheGpusClock) {
  open();
  fake_metal::set_faults({.delay_ms = 20});
  const auto times = device_->time(two_norms(), 2);
  ASSERT_TRUE(times.has_value()) << times.error().message;
  EXPECT_EQ(fake_metal::command_buffers_begun(), 2 * 3);
  expect_normed(z_);
  ASSERT_EQ(times->launches.size(), 2u);
  EXPECT_EQ(times->launches[1].kernel, "head_states");
  EXPECT_EQ(times->launches[1].takes, std::vector<std::size_t>{1});
  for (const double seconds :
       {times->seconds, times->launches[0].seconds, times->launches[1].seconds})
    EXPECT_GE(seconds, 0.02);
}

TEST_F(MetalDeviceTest, TimingTellsWhatTheGpuRefuses) {
  open();
  fake_metal::set_faults({.command_buffer = 1});
  const auto times = device_->time(two_norms(), 1);
  ASSERT_FALSE(times.has_value());
  EXPECT_THAT(times.error().message, HasSubstr("planted"));
}

TEST_F(MetalDeviceTest, MemoryIsZeroedAndMayOutliveTheDevice) {
  open();
  const Buffer rows = *device_->allocate(kEntries * 4, "rows");
  EXPECT_EQ(read(rows), std::vector<float>(kEntries));
  const Buffer nothing = *device_->allocate(0, "nothing");
  device_.reset();
  EXPECT_EQ(rows.bytes(), kEntries * 4);
}

// Until `more` requests came behind the `so_far` that there were, or two seconds went by.
bool asked(int so_far, int more) {
  const auto start = std::chrono::steady_clock::now();
  while (fake_metal::residency_requests() < so_far + more) {
    if (seconds_since(start) > 2.0) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TEST_F(MetalDeviceTest, ResidencyIsAskedForAgainWhileMemoryWasUsedLately) {
  using std::chrono::milliseconds;
  open({.residency = {.every = milliseconds(5), .keep = milliseconds(100)}});
  const int opened = fake_metal::residency_requests();
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(fake_metal::residency_requests(), opened);  // Nothing was used yet.
  submit(1);
  EXPECT_EQ(wait(1), "");
  EXPECT_TRUE(asked(opened, 5));
  std::this_thread::sleep_for(milliseconds(300));
  const int idle = fake_metal::residency_requests();
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(fake_metal::residency_requests(), idle);  // Given up.
  submit(2);
  EXPECT_EQ(wait(2), "");
  EXPECT_TRUE(asked(idle, 5));
}

TEST_F(MetalDeviceTest, WeightsAreUsedWhereTheyLieHoweverManyBuffersTheyTake) {
  for (const std::size_t pages_a_buffer : {3u, 5u, 1000u}) {
    auto machine = watched_machine();
    machine.max_buffer_bytes = pages_a_buffer * Weights::page() + 5;
    fake_metal::reset(machine);
    open();
    const Weights weights(9);
    const Buffer adopted = *device_->adopt(weights.bytes(), weights.owner());
    EXPECT_EQ(read(adopted, 20)[17], 2.0f);
    for (std::size_t at = 0; at + kWidth * 4 <= adopted.bytes(); at += 1088) {
      Program program;
      program.add(norm(x_, adopted.as<float>(at), y_));
      submit(at + 1, program);
      ASSERT_EQ(wait(at + 1), "") << at;
      const double scale = std::sqrt(mean_square(ramp(), 1));
      for (const unsigned c : {0u, 41u, kWidth - 1})
        EXPECT_NEAR(read(y_)[kWidth + c], ramp()[kWidth + c] / scale * weights.floats()[at / 4 + c],
                    1e-4);
    }
  }
}

TEST_F(MetalDeviceTest, WeightsThatBeginInsideAPageKeepTheirPlace) {
  open();
  const Weights weights(3);
  const Buffer adopted = *device_->adopt(weights.bytes().subspan(64, 5000), weights.owner());
  EXPECT_EQ(read(adopted, 2)[0], weights.floats()[16]);
  Program program;
  program.add(norm(x_, adopted.as<float>(), y_));
  submit(1, program);
  EXPECT_EQ(wait(1), "");
}

TEST_F(MetalDeviceTest, ATensorThatFitsNoBufferIsNamed) {
  auto machine = watched_machine();
  machine.max_buffer_bytes = 3 * Weights::page();
  fake_metal::reset(machine);
  open();
  const Weights weights(12);
  const Buffer adopted = *device_->adopt(weights.bytes(), weights.owner());
  auto launch = norm(x_, adopted.as<float>(64), y_);
  launch.reads[1].bytes = 4 * Weights::page();
  Program program;
  program.add(launch);
  const auto refused = device_->build(program);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("head_states"), HasSubstr("tensor")));
}

TEST_F(MetalDeviceTest, MemoryBeyondTheBudgetIsRefusedWithNumbers) {
  auto machine = watched_machine();
  machine.working_set_bytes = 3'000'000'000;
  fake_metal::reset(machine);
  open();
  EXPECT_EQ(device_->info().memory_bytes, 3'000'000'000u);
  const Buffer most = *device_->allocate(2'500'000'000, "cache");
  const auto refused = device_->allocate(1'000'000'000, "scratch");
  EXPECT_EQ(refused.error().code, ErrorCode::kNoMemory);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("scratch: 1.00 GB needed beside 2.50 GB"), HasSubstr("3.00 GB")));
  const Weights weights(1);
  EXPECT_TRUE(device_->adopt(weights.bytes(), weights.owner()).has_value());
}

TEST_F(MetalDeviceTest, ABufferOverTheLargestIsRefusedBeforeMetalSeesIt) {
  auto machine = watched_machine();
  machine.max_buffer_bytes = 1 << 20;
  fake_metal::reset(machine);
  open();
  const auto refused = device_->allocate((1 << 20) + 1, "cache");
  EXPECT_EQ(refused.error().code, ErrorCode::kNoMemory);
  EXPECT_THAT(refused.error().message, HasSubstr("one piece"));
}

TEST_F(MetalDeviceTest, KernelsAreCompiledInTheNewestLanguageThatTheSystemHas) {
  for (const auto& [os, language] :
       {std::pair{15L, "Metal 3.2"}, {26L, "Metal 4.0"}, {27L, "Metal 4.1"}}) {
    auto machine = watched_machine();
    machine.os_major = os;
    fake_metal::reset(machine);
    open();
    EXPECT_THAT(device_->info().description, HasSubstr(language));
  }
}

TEST_F(MetalDeviceTest, EveryKernelOfTheListLoads) {
  open();
  const auto loaded = device_->load(kernels());
  EXPECT_TRUE(loaded.has_value()) << loaded.error().message;
}

}  // namespace
}  // namespace lily::gpu::metal
