// Two devices as one: what agrees, and a device that is wrong in one word is found out.
#include "backend/gpu/twin_device.h"

#include <bit>
#include <limits>

#include "tests/metal/metal.h"

namespace lily::gpu::metal {
namespace {

using Words = std::vector<std::uint32_t>;

std::uint32_t bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

KernelComparison compared(const Words& expected, const Words& found, bool bf16 = false) {
  KernelComparison comparison;
  compare_words(expected, found, bf16, comparison);
  return comparison;
}

TEST(CompareWords, FloatsDifferByAShareOfTheLargest) {
  EXPECT_EQ(compared({bits(1.0f), bits(-8.0f)}, {bits(1.0f), bits(-8.0f)}).worst, 0.0);
  EXPECT_DOUBLE_EQ(compared({bits(1.0f), bits(-8.0f)}, {bits(1.5f), bits(-8.0f)}).worst, 0.0625);
  EXPECT_DOUBLE_EQ(compared({bits(0.0f), bits(2.0f)}, {bits(1.0f), bits(2.0f)}).worst, 0.5);
  EXPECT_DOUBLE_EQ(compared({bits(1.0f), bits(2.0f)}, {0, bits(2.0f)}).worst, 0.5);
}

TEST(CompareWords, IntegersAndWhatIsNotFiniteAreTheSameOrDifferent) {
  const auto nan = bits(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(compared({7, 0, nan}, {7, 0, nan}).n_different, 0u);
  EXPECT_EQ(compared({7, 0}, {8, 0}).n_different, 1u);
  EXPECT_EQ(compared({bits(1.0f)}, {nan}).n_different, 1u);
  EXPECT_EQ(compared({nan}, {bits(1.0f)}).n_different, 1u);
}

TEST(CompareWords, BothHalvesOfABf16PairCount) {
  EXPECT_DOUBLE_EQ(compared({0x3f803f80}, {0x3f804000}, true).worst, 1.0);
  EXPECT_DOUBLE_EQ(compared({0x3f803f80}, {0x40003f80}, true).worst, 1.0);
}

// The emulator with one wrong word in what is read.
class WrongDevice final : public Device {
 public:
  explicit WrongDevice(std::unique_ptr<EmulatorDevice> device) : device_(std::move(device)) {}
  const BackendInfo& info() const override { return device_->info(); }
  Result<Buffer> allocate(std::size_t bytes, std::string_view what) override {
    return device_->allocate(bytes, what);
  }
  Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner) override {
    return device_->adopt(bytes, std::move(owner));
  }
  void write(void* to, std::span<const std::byte> bytes) override { device_->write(to, bytes); }
  Result<void> read(const void* from, std::span<std::byte> bytes) override {
    LILY_RETURN_IF_ERROR(device_->read(from, bytes));
    bytes[bytes.size() - 2] ^= std::byte{0x80};  // The exponent's last bit: twice or half of it.
    return {};
  }
  Result<void> load(std::span<const Kernel> kernels) override { return device_->load(kernels); }
  Result<std::shared_ptr<Recording>> build(const Program& program) override {
    return device_->build(program);
  }
  void submit(std::shared_ptr<Recording> recording, Ticket ticket) override {
    device_->submit(std::move(recording), ticket);
  }
  Result<void> wait(Ticket ticket) override { return device_->wait(ticket); }

 private:
  std::unique_ptr<EmulatorDevice> device_;
};

class Twin : public OnFakeMetal {
 protected:
  // The comparison of head_states after x -> y on the emulator and `other`.
  KernelComparison norm_on(std::unique_ptr<Device> other) {
    Comparisons comparisons;
    TwinDevice twin(*EmulatorDevice::create({}), std::move(other), comparisons);
    EXPECT_TRUE(twin.load({find_kernel("head_states"), 1}).has_value());
    const Buffer control = *twin.allocate(kControlBytes, "control");
    write_control(twin, control);
    const Buffer x = *twin.allocate(kEntries * 4, "rows"), y = *twin.allocate(kEntries * 4, "rows");
    const std::vector<float> values(kEntries, 3.0f);
    twin.write(x.address(), std::as_bytes(std::span(values)));
    const Weights norm(1);
    const Buffer weights = *twin.adopt(norm.bytes(), norm.owner());
    Program program;
    program.add(norm_launch(control, x, weights.as<float>(), y));
    twin.submit(*twin.build(program), 1);
    const auto done = twin.wait(1);
    EXPECT_TRUE(done.has_value()) << done.error().message;
    std::vector<float> out(kEntries);
    EXPECT_TRUE(twin.read(y.address(), std::as_writable_bytes(std::span(out))).has_value());
    EXPECT_NEAR(out[7], norm.floats()[7], 1e-5);
    return comparisons["head_states"];
  }
};

TEST_F(Twin, MetalAndTheEmulatorAgree) {
  const auto comparison = norm_on(*MetalDevice::create());
  EXPECT_EQ(comparison.n_launches, 1);
  EXPECT_EQ(comparison.n_words, kEntries);
  EXPECT_EQ(comparison.n_different, 0u);
  EXPECT_EQ(comparison.worst, 0.0);
  EXPECT_EQ(comparison.expected.size(), 8u);
  EXPECT_EQ(comparison.expected, comparison.found);
}

TEST_F(Twin, AWrongWordIsFound) {
  const auto comparison = norm_on(std::make_unique<WrongDevice>(*EmulatorDevice::create({})));
  EXPECT_GE(comparison.worst, 0.5);
}

TEST_F(Twin, AFailureNamesTheKernel) {
  fake_metal::set_faults({.command_buffer = 0});
  Comparisons comparisons;
  TwinDevice twin(*EmulatorDevice::create({}), *MetalDevice::create(), comparisons);
  ASSERT_TRUE(twin.load({find_kernel("head_states"), 1}).has_value());
  const Buffer control = *twin.allocate(kControlBytes, "control");
  const Buffer rows = *twin.allocate(kEntries * 4, "rows"),
               to = *twin.allocate(kEntries * 4, "rows");
  Program program;
  program.add(norm_launch(control, rows, rows.as<float>(), to));
  twin.submit(*twin.build(program), 1);
  EXPECT_THAT(twin.wait(1).error().message,
              ::testing::HasSubstr("head_states: a pass on Metal failed"));
  EXPECT_TRUE(twin.wait(1).has_value());
}

}  // namespace
}  // namespace lily::gpu::metal
