// A device on the stand-in for Metal, and a small program for it: rows, normed and normed again.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backend/gpu/kernels/head_states_params.h"
#include "backend/gpu/metal/metal_device.h"
#include "tests/metal/fake/fake.h"

namespace lily::gpu::metal {

inline constexpr unsigned kWidth = 96, kRows = 3;
inline constexpr std::size_t kEntries = kWidth * kRows;
// As much of a PassControl as names the rows.
inline constexpr std::size_t kControlBytes = offsetof(PassControl, head_rows) + 4 * kRows;

// Every access watched, where the build can.
inline fake_metal::Machine watched_machine() {
  fake_metal::Machine machine;
#if !defined(LILY_GPU_TSAN)
  machine.observe = true;
#endif
  return machine;
}

// Holds every test to this: nothing alive at its end, no misuse.
class OnFakeMetal : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_metal::reset(watched_machine());
    fake_metal::collect_misuse();
  }
  void TearDown() override {
    EXPECT_EQ(fake_metal::live_objects(), 0) << fake_metal::live_report();
    EXPECT_THAT(fake_metal::take_misuse(), ::testing::IsEmpty());
  }
};

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Weights at a page's start, as an image has them.
class Weights {
 public:
  explicit Weights(std::size_t n_pages)
      : bytes_(n_pages * page()), memory_(std::aligned_alloc(page(), bytes_), std::free) {
    const auto n = bytes_ / sizeof(float);
    for (std::size_t i = 0; i < n; ++i) floats()[i] = 1.0f + static_cast<float>(i / 16 % 7);
  }
  static std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
  float* floats() const { return static_cast<float*>(memory_.get()); }
  std::span<const std::byte> bytes() const {
    return {static_cast<std::byte*>(memory_.get()), bytes_};
  }
  std::shared_ptr<void> owner() const { return memory_; }

 private:
  std::size_t bytes_;
  std::shared_ptr<void> memory_;
};

// A pass of kRows rows, all of them wanted.
inline void write_control(Device& device, const Buffer& to) {
  PassControl control{};
  control.n_rows = control.n_head_rows = kRows;
  std::iota(control.head_rows, control.head_rows + kRows, 0);
  device.write(to.address(), std::as_bytes(std::span(&control, 1)).first(kControlBytes));
}

// kRows rows of kWidth, each divided by its root mean square and multiplied by norm.
inline Launch norm_launch(const Buffer& control, const Buffer& from, const float* norm,
                          const Buffer& to) {
  const HeadStatesParams params{.control = control.as<const int>(),
                                .h = from.as<float>(),
                                .norm = norm,
                                .states = to.as<float>(),
                                .hidden = kWidth,
                                .first = 0,
                                .eps = 1e-6f,
                                .unused = 0};
  const auto bytes = std::as_bytes(std::span(&params, 1));
  return {
      find_kernel("head_states"),
      {bytes.begin(), bytes.end()},
      {.x = kRows},
      64,
      {range(from.as<float>(), kEntries), range(norm, kWidth), {control.address(), kControlBytes}},
      {range(to.as<float>(), kEntries)}};
}

class MetalDeviceTest : public OnFakeMetal {
 protected:
  void open(const MetalOptions& options = {}) {
    auto device = MetalDevice::create(options);
    ASSERT_TRUE(device.has_value()) << device.error().message;
    device_ = *std::move(device);
    const auto loaded = device_->load({find_kernel("head_states"), 1});
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    for (Buffer* buffer : {&x_, &y_, &z_}) *buffer = *device_->allocate(kEntries * 4, "rows");
    norm_ = *device_->allocate(kWidth * 4, "norm");
    control_ = *device_->allocate(kControlBytes, "control");
    write_control(*device_, control_);
    write(x_, ramp());
    write(norm_, std::vector<float>(kWidth, 2.0f));
  }
  void TearDown() override {
    for (Buffer* buffer : {&x_, &y_, &z_, &norm_, &control_}) *buffer = {};
    device_.reset();
    OnFakeMetal::TearDown();
  }

  static std::vector<float> ramp() {
    std::vector<float> values(kEntries);
    std::iota(values.begin(), values.end(), 1.0f);
    return values;
  }
  void write(const Buffer& to, const std::vector<float>& values) {
    device_->write(to.address(), std::as_bytes(std::span(values)));
  }
  std::vector<float> read(const Buffer& from, std::size_t n = kEntries) {
    std::vector<float> values(n);
    EXPECT_TRUE(
        device_->read(from.address(), std::as_writable_bytes(std::span(values))).has_value());
    return values;
  }

  Launch norm(const Buffer& from, const float* norm, const Buffer& to) const {
    return norm_launch(control_, from, norm, to);
  }
  // x -> y -> z
  Program two_norms() const {
    Program program;
    program.add(norm(x_, norm_.as<float>(), y_));
    program.add(norm(y_, norm_.as<float>(), z_));
    return program;
  }
  void submit(Ticket ticket) { submit(ticket, two_norms()); }
  void submit(Ticket ticket, const Program& program) {
    auto recording = device_->build(program);
    ASSERT_TRUE(recording.has_value()) << recording.error().message;
    device_->submit(*std::move(recording), ticket);
  }
  // "" where all went well.
  std::string wait(Ticket ticket) {
    const auto done = device_->wait(ticket);
    return done ? "" : done.error().message;
  }
  static double mean_square(const std::vector<float>& rows, unsigned r) {
    double squares = 0;
    for (unsigned c = 0; c < kWidth; ++c)
      squares += double{rows[r * kWidth + c]} * rows[r * kWidth + c];
    return squares / kWidth;
  }
  // Each row was divided by its root mean square and multiplied by norm's entries.
  void expect_normed(const Buffer& rows, double entry = 2.0) {
    for (unsigned r = 0; r < kRows; ++r)
      EXPECT_NEAR(mean_square(read(rows), r), entry * entry, 1e-3);
  }

  std::unique_ptr<MetalDevice> device_;
  Buffer x_, y_, z_, norm_, control_;
};

}  // namespace lily::gpu::metal
