// The emulator device runs behind the host: submit() returns at once, replays follow each other,
// and the host is held to its rule of access (device.h).
#include "backend/gpu/emulator_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

#include "backend/gpu/kernels/copy_params.h"

namespace lily::gpu {
namespace {

using ::testing::HasSubstr;

constexpr unsigned kWidth = 64;
constexpr std::size_t kRowBytes = kWidth * sizeof(float);

// Rows that are copied into each other, on a device whose thread can be held back.
class EmulatorDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device_ = *EmulatorDevice::create({.workers = 1});
    for (Buffer* buffer : {&x_, &y_, &z_, &other_}) *buffer = *device_->allocate(kRowBytes, "row");
    write(x_, 3.0f);
  }
  void TearDown() override {
    let_go();
    if (device_) static_cast<void>(device_->wait(ticket_));
  }

  void write(const Buffer& to, float value) {
    const std::vector<float> row(kWidth, value);
    device_->write(to.address(), std::as_bytes(std::span(row)));
  }
  float read(const Buffer& from) {
    float value = 0;
    const auto done = device_->read(from.address(), std::as_writable_bytes(std::span(&value, 1)));
    EXPECT_TRUE(done.has_value());
    return value;
  }

  static Launch copying(const Buffer& from, const Buffer& to, Grid grid = {}) {
    const CopyParams params{from.as<unsigned char>(), to.as<unsigned char>(), kRowBytes, 0};
    const auto bytes = std::as_bytes(std::span(&params, 1));
    return {find_kernel("copy_words"),         {bytes.begin(), bytes.end()},   grid, 256,
            {range(from.as<float>(), kWidth)}, {range(to.as<float>(), kWidth)}};
  }
  Ticket submit(const Buffer& from, const Buffer& to, Grid grid = {}) {
    Program program;
    program.add(copying(from, to, grid));
    device_->submit(*device_->build(program), ++ticket_);
    return ticket_;
  }

  // The device's thread does nothing until let_go().
  void hold() {
    std::promise<void> reached;
    holder_ = std::thread([this, &reached] {
      const auto done = device_->with_memory([&](Emulator&) -> Result<void> {
        reached.set_value();
        held_.get_future().wait();
        return {};
      });
      EXPECT_TRUE(done.has_value());
    });
    reached.get_future().wait();
  }
  void let_go() {
    if (!holder_.joinable()) return;
    held_.set_value();
    holder_.join();
  }

  std::unique_ptr<EmulatorDevice> device_;
  Buffer x_, y_, z_, other_;
  Ticket ticket_ = 0;
  std::thread holder_;
  std::promise<void> held_;
};

TEST_F(EmulatorDeviceTest, TheHostGoesOnWhileReplaysWaitForTheirTurn) {
  hold();
  submit(x_, y_);
  const Ticket last = submit(y_, z_);
  write(other_, 7.0f);
  EXPECT_EQ(read(other_), 7.0f);
  EXPECT_EQ(read(x_), 3.0f);  // In flight a replay only reads it.
  let_go();
  ASSERT_TRUE(device_->wait(last).has_value());
  EXPECT_EQ(read(y_), 3.0f);
  EXPECT_EQ(read(z_), 3.0f);
}

TEST_F(EmulatorDeviceTest, WaitingForOneLeavesTheNextInFlight) {
  const Ticket first = submit(x_, y_);
  ASSERT_TRUE(device_->wait(first).has_value());
  hold();
  submit(x_, z_);
  ASSERT_TRUE(device_->wait(first).has_value());
  EXPECT_EQ(read(y_), 3.0f);
  write(y_, 2.0f);
}

TEST_F(EmulatorDeviceTest, ReplaysBehindOneThatFailsRunAndEachErrorBelongsToItsTicket) {
  const Grid too_many{.x = 1 << 20, .y = 1 << 12};
  const Ticket good = submit(x_, y_), bad = submit(x_, z_, too_many), next = submit(y_, other_);
  EXPECT_TRUE(device_->wait(good).has_value());
  EXPECT_THAT(device_->wait(bad).error().message, HasSubstr("copy_words"));
  EXPECT_TRUE(device_->wait(next).has_value());
  EXPECT_EQ(read(other_), 3.0f);
}

TEST_F(EmulatorDeviceTest, TimingReplaysAProgramAndNamesItsLaunches) {
  Program program;
  program.add(copying(x_, y_));
  program.add(copying(y_, z_));
  const auto times = device_->time(program, 3);
  ASSERT_TRUE(times.has_value()) << times.error().message;
  EXPECT_EQ(read(z_), 3.0f);
  ASSERT_EQ(times->launches.size(), 2u);
  EXPECT_EQ(times->launches[1].kernel, "copy_words");
  EXPECT_EQ(times->launches[1].takes, std::vector<std::size_t>{1});
  for (const LaunchTime& launch : times->launches) EXPECT_GT(launch.seconds, 0);
  EXPECT_GT(times->seconds, 0);
}

TEST_F(EmulatorDeviceTest, WhatWasSubmittedIsDoneBeforeTheDeviceGoes) {
  submit(x_, y_);
  submit(y_, z_);
  device_.reset();
}

class EmulatorDeviceDeathTest : public EmulatorDeviceTest {
 protected:
  // Each statement runs in a process of its own, which comes here from the start.
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EmulatorDeviceTest::SetUp();
    submit(x_, y_);
  }
};

TEST_F(EmulatorDeviceDeathTest, TheHostWritesNothingThatAReplayInFlightTouches) {
  EXPECT_DEATH(write(x_, 1.0f), "reads");
  EXPECT_DEATH(write(y_, 1.0f), "writes");
  write(z_, 1.0f);
}

TEST_F(EmulatorDeviceDeathTest, TheHostReadsNothingThatAReplayInFlightWrites) {
  EXPECT_DEATH(read(y_), "writes");
  ASSERT_TRUE(device_->wait(ticket_).has_value());
  EXPECT_EQ(read(y_), 3.0f);
}

TEST_F(EmulatorDeviceDeathTest, NoBufferGoesThatAReplayInFlightNames) {
  EXPECT_DEATH(y_ = {}, "names");
}

}  // namespace
}  // namespace lily::gpu
