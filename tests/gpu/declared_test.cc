// The emulator device holds launches to what they declared, and the host out of the device's
// memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "backend/gpu/declared.h"
#include "backend/gpu/emulator_device.h"
#include "backend/gpu/kernels/copy_params.h"

namespace lily::gpu {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kEntries = 288, kBytes = kEntries * sizeof(float);

// x -> y -> z, copied, on a device that watches.
class Declared : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = EmulatorDevice::create({.observe = true});
    if (!device && device.error().code == ErrorCode::kUnsupported)
      GTEST_SKIP() << device.error().message;
    ASSERT_TRUE(device.has_value()) << device.error().message;
    device_ = *std::move(device);
    for (Buffer* buffer : {&x_, &y_, &z_}) *buffer = *device_->allocate(kBytes, "rows");
    std::vector<float> values(kEntries);
    std::iota(values.begin(), values.end(), 1.0f);
    device_->write(x_.address(), std::as_bytes(std::span(values)));
  }

  Launch copy(const Buffer& from, const Buffer& to) const {
    const CopyParams params{from.as<unsigned char>(), to.as<unsigned char>(), kBytes, 0};
    const auto bytes = std::as_bytes(std::span(&params, 1));
    return {find_kernel("copy_words"),           {bytes.begin(), bytes.end()},     {}, 256,
            {range(from.as<float>(), kEntries)}, {range(to.as<float>(), kEntries)}};
  }

  Result<void> run(const std::vector<Launch>& launches) {
    Program program;
    for (const Launch& l : launches) program.add(l);
    device_->submit(*device_->build(program), ++ticket_);
    return device_->wait(ticket_);
  }
  std::string message_of(const std::vector<Launch>& launches) {
    const auto done = run(launches);
    return done ? "" : done.error().message;
  }

  std::unique_ptr<EmulatorDevice> device_;
  Buffer x_, y_, z_;
  Ticket ticket_ = 0;
};

TEST_F(Declared, WhatDeclaresAllItTouchesRuns) {
  EXPECT_EQ(message_of({copy(x_, y_), copy(y_, z_)}), "");
  std::vector<float> z(kEntries);
  ASSERT_TRUE(device_->read(z_.address(), std::as_writable_bytes(std::span(z))).has_value());
  EXPECT_EQ(z[kEntries - 1], static_cast<float>(kEntries));
}

TEST_F(Declared, DeclaringMoreIsAllowed) {
  auto wide = copy(x_, y_);
  wide.reads.push_back(range(z_.as<float>(), kEntries));
  EXPECT_EQ(message_of({wide}), "");
}

TEST_F(Declared, AReadThatWasNotDeclaredIsNamed) {
  auto launch = copy(x_, y_);
  launch.reads[0].bytes -= 4;
  EXPECT_THAT(message_of({launch}),
              AllOf(HasSubstr("copy_words"), HasSubstr("reads"), HasSubstr("did not declare")));
}

TEST_F(Declared, AWriteThatWasNotDeclaredIsNamed) {
  auto launch = copy(x_, y_);
  launch.writes[0].bytes -= 4;
  EXPECT_THAT(message_of({copy(x_, z_), launch}),
              AllOf(HasSubstr("launch 1 of 2"), HasSubstr("writes")));
}

TEST_F(Declared, ADependencyThatWasNotDeclaredIsAHazard) {
  auto second = copy(y_, z_);
  second.reads.erase(second.reads.begin());
  EXPECT_THAT(message_of({copy(x_, y_), second}), HasSubstr("no barrier"));
}

TEST_F(Declared, IndirectAccessesMayNotReachWhatOthersDeclare) {
  auto launch = copy(y_, z_);
  launch.reads[0] = kIndirect;
  EXPECT_EQ(message_of({launch}), "");
  EXPECT_NE(message_of({copy(x_, y_), launch}), "");
}

TEST_F(Declared, AnErrorIsToldOnceAndTheDeviceGoesOn) {
  auto launch = copy(x_, y_);
  launch.writes.clear();
  EXPECT_NE(message_of({launch}), "");
  EXPECT_TRUE(device_->wait(ticket_).has_value());
  EXPECT_EQ(message_of({copy(x_, y_)}), "");
}

using DeclaredDeathTest = Declared;
TEST_F(DeclaredDeathTest, TheHostCannotReachIntoDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // The device has a thread.
  EXPECT_DEATH({ *static_cast<volatile float*>(x_.address()) = 1.0f; }, "");
}

}  // namespace
}  // namespace lily::gpu
