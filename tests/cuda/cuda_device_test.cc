// The card through device.h: memory, order, and what goes wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "backend/gpu/cuda/open.h"
#include "backend/gpu/kernels/copy_params.h"
#include "backend/gpu/program.h"

namespace lily::gpu {
namespace {

constexpr std::size_t kWords = 1 << 20;

class CudaDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = cuda::open_device();
    if (!opened) GTEST_SKIP() << "no CUDA here: " << opened.error().message;
    device_ = *std::move(opened);
    ASSERT_TRUE(device_->load(kernels()).has_value());
  }
  std::vector<std::uint32_t> words_of(const Buffer& buffer) const {
    std::vector<std::uint32_t> words(buffer.bytes() / sizeof(std::uint32_t));
    EXPECT_TRUE(
        device_->read(buffer.address(), std::as_writable_bytes(std::span(words))).has_value());
    return words;
  }
  static std::vector<std::uint32_t> counting(std::size_t n) {
    std::vector<std::uint32_t> words(n);
    std::iota(words.begin(), words.end(), 1u);
    return words;
  }
  // A launch of copy_words from one buffer to the other.
  static Launch copying(const Buffer& from, const Buffer& to) {
    const CopyParams params{.from = from.as<unsigned char>(),
                            .to = to.as<unsigned char>(),
                            .bytes_low = static_cast<unsigned>(from.bytes()),
                            .bytes_high = 0};
    const auto bytes = std::as_bytes(std::span(&params, 1));
    const auto groups = static_cast<unsigned>((from.bytes() + 16383) / 16384);
    return {find_kernel("copy_words"),        {bytes.begin(), bytes.end()}, {groups}, 256,
            {{from.address(), from.bytes()}}, {{to.address(), to.bytes()}}};
  }

  std::unique_ptr<Device> device_;
};

TEST_F(CudaDeviceTest, MemoryIsZeroAtFirstAndKeepsWhatIsWritten) {
  const auto buffer = *device_->allocate(4 * kWords, "words");
  EXPECT_EQ(words_of(buffer), std::vector<std::uint32_t>(kWords, 0));
  const auto words = counting(kWords);
  device_->write(buffer.address(), std::as_bytes(std::span(words)));
  EXPECT_EQ(words_of(buffer), words);
}

TEST_F(CudaDeviceTest, WeightsLargerThanAPieceArriveWhole) {
  const auto words = counting((std::size_t{70} << 20) / 4 + 3);
  std::vector<std::uint64_t> told;
  device_ = *cuda::open_device([&](std::uint64_t done, std::uint64_t total) {
    EXPECT_EQ(total, 4 * words.size());
    told.push_back(done);
  });
  const auto buffer = *device_->adopt(std::as_bytes(std::span(words)), nullptr);
  EXPECT_EQ(words_of(buffer), words);
  EXPECT_EQ(told.size(), 3u);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()) && told.back() == 4 * words.size());
}

TEST_F(CudaDeviceTest, LaunchesWaitForWhatTheyRead) {
  std::vector<Buffer> chain;
  for (int i = 0; i < 20; i++) chain.push_back(*device_->allocate(4 * kWords, "words"));
  Program program;
  for (std::size_t i = 1; i < chain.size(); i++) program.add(copying(chain[i - 1], chain[i]));
  const auto recording = *device_->build(program);
  const auto words = counting(kWords);
  device_->write(chain.front().address(), std::as_bytes(std::span(words)));
  device_->submit(recording, 1);
  ASSERT_TRUE(device_->wait(1).has_value());
  EXPECT_EQ(words_of(chain.back()), words);
}

TEST_F(CudaDeviceTest, AProgramAndEachOfItsKernelsAreTimed) {
  std::vector<Buffer> chain;
  for (int i = 0; i < 5; i++) chain.push_back(*device_->allocate(4 * kWords, "words"));
  Program program;
  for (std::size_t i = 1; i < chain.size(); i++) program.add(copying(chain[i - 1], chain[i]));
  const auto times = device_->time(program, 3);
  ASSERT_TRUE(times.has_value()) << times.error().message;
  ASSERT_EQ(times->launches.size(), 4u);
  double sum = 0;
  for (std::size_t i = 0; i < 4; i++) {
    EXPECT_EQ(times->launches[i].kernel, "copy_words");
    EXPECT_EQ(times->launches[i].takes, std::vector<std::size_t>{i});
    EXPECT_GT(times->launches[i].seconds, 0);
    sum += times->launches[i].seconds;
  }
  // Each waits for the one before, in the pass as alone.
  EXPECT_GT(times->seconds, sum / 3);
  EXPECT_LT(times->seconds, sum * 3);
}

TEST_F(CudaDeviceTest, MoreThanTheCardHoldsIsNoMemory) {
  const auto refused = device_->allocate(std::size_t{1} << 50, "a petabyte");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoMemory);
  EXPECT_NE(refused.error().message.find("a petabyte"), std::string::npos);
  EXPECT_TRUE(device_->allocate(4 * kWords, "words").has_value());
}

// Loses the card, for this process: true where every wait says so.
bool lose_the_device(Device& device, const Launch& launch) {
  Program program;
  program.add(launch);
  const auto recording = *device.build(program);
  device.submit(recording, 1);
  const auto failed = device.wait(1);
  device.submit(recording, 2);
  return !failed && failed.error().code == ErrorCode::kDevice && !device.wait(2);
}

TEST_F(CudaDeviceTest, ALostDeviceIsToldByTheWaitAndByEveryOneAfter) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // In a process of its own.
  const auto to = *device_->allocate(4 * kWords, "words");
  const Buffer nowhere(reinterpret_cast<void*>(std::uintptr_t{64}), 4 * kWords, nullptr);
  EXPECT_EXIT(std::_Exit(lose_the_device(*device_, copying(nowhere, to)) ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

TEST(CudaAbsentTest, AMachineWithoutIsToldWhatItLacks) {
  const auto opened = cuda::open_device();
  if (opened) GTEST_SKIP() << "there is a card here";
  EXPECT_TRUE(opened.error().code == ErrorCode::kDevice ||
              opened.error().code == ErrorCode::kUnsupported);
  EXPECT_NE(opened.error().message.find("CUDA"), std::string::npos);
}

}  // namespace
}  // namespace lily::gpu
