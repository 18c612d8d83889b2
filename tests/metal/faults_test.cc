// What goes wrong on Metal's side ends in an error that says so or in a retry that works, within a
// bound, and leaves nothing behind.
#include "tests/metal/metal.h"

namespace lily::gpu::metal {
namespace {

using ::testing::HasSubstr;

class MetalFaults : public MetalDeviceTest {
 protected:
  void TearDown() override {
    MetalDeviceTest::TearDown();
    EXPECT_LT(seconds_since(start_), 10.0);
  }
  // The error of a device that cannot be opened.
  static Error refusal() {
    const auto device = MetalDevice::create();
    return device ? Error{ErrorCode::kDevice, "opened"} : device.error();
  }
  // Why the kernels of head_states.cc do not load.
  std::string load_error() {
    const auto loaded = device_->load({find_kernel("head_states"), 1});
    return loaded ? "" : loaded.error().message;
  }
  void expect_works(Ticket ticket) {
    submit(ticket);
    EXPECT_EQ(wait(ticket), "");
    expect_normed(z_);
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

TEST_F(MetalFaults, MachinesThatWillNotDo) {
  fake_metal::reset({.os_major = 14});
  EXPECT_EQ(refusal().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refusal().message, HasSubstr("macOS 15"));
  fake_metal::reset({.has_device = false});
  EXPECT_THAT(refusal().message, HasSubstr("no GPU"));
  fake_metal::reset({.family = 1006});
  EXPECT_THAT(refusal().message, AllOf(HasSubstr("Fake M9"), HasSubstr("M1")));
}

TEST_F(MetalFaults, AnyObjectOfTheQueueMayBeMissing) {
  for (int n = 0; n < 4; ++n) {
    fake_metal::set_faults({.queue_object = n});
    EXPECT_EQ(refusal().code, ErrorCode::kDevice) << n;
    EXPECT_THAT(refusal().message, HasSubstr("opened")) << n;  // The second time all is there.
  }
}

TEST_F(MetalFaults, AnAllocationThatFailsIsToldAndNotCounted) {
  open();
  fake_metal::set_faults({.allocation = 0});
  const auto refused = device_->allocate(1000, "scratch");
  EXPECT_EQ(refused.error().code, ErrorCode::kNoMemory);
  EXPECT_THAT(refused.error().message, HasSubstr("scratch: Metal gave no buffer"));
  EXPECT_TRUE(device_->allocate(1000, "scratch").has_value());
  fake_metal::set_faults({.allocation = 0});
  const Weights weights(1);
  EXPECT_THAT(device_->adopt(weights.bytes(), weights.owner()).error().message,
              HasSubstr("Metal refused"));
  EXPECT_TRUE(device_->adopt(weights.bytes(), weights.owner()).has_value());
  fake_metal::set_faults({.allocation = 0});
  EXPECT_THAT(device_->build(two_norms()).error().message, HasSubstr("arguments of a pass"));
  expect_works(1);
}

TEST_F(MetalFaults, AKernelFileThatDoesNotCompileIsNamed) {
  open();
  fake_metal::set_faults({.compiling = "HeadStatesParams"});
  EXPECT_EQ(load_error(),
            "compiling backend/gpu/kernels/head_states.cc as Metal 4.0: program_source:7:1: error: "
            "unknown type name 'HeadStatesParams'");
  fake_metal::set_faults({});
  EXPECT_EQ(load_error(), "");
}

TEST_F(MetalFaults, AKernelThatMakesNoPipelineIsNamed) {
  open();
  fake_metal::set_faults({.pipeline = "head_states"});
  EXPECT_EQ(load_error(), "Metal kernel 'head_states': Compiler encountered an internal error");
  fake_metal::set_faults({.missing_function = "head_states"});
  EXPECT_THAT(load_error(), HasSubstr("no function"));
  fake_metal::reset({.simd_width = 16});
  EXPECT_THAT(load_error(), HasSubstr("16 lanes a simdgroup, expected 32"));
}

TEST_F(MetalFaults, ALaunchOfMoreThreadsThanThePipelineTakesIsNamed) {
  fake_metal::set_faults({.few_threads = "head_states"});
  open();
  EXPECT_EQ(device_->build(two_norms()).error().message,
            "Metal kernel 'head_states': a launch has 64 threads a group, this GPU takes 32");
}

TEST_F(MetalFaults, AKernelThatWasNotLoadedIsNamed) {
  open();
  Program program;
  auto launch = norm(x_, norm_.as<float>(), y_);
  launch.kernel = find_kernel("copy_words");
  program.add(launch);
  EXPECT_THAT(device_->build(program).error().message, HasSubstr("'copy_words': not loaded"));
}

TEST_F(MetalFaults, APassThatFailsIsToldOnceWithMetalsWords) {
  open();
  fake_metal::set_faults({.command_buffer = 0});
  submit(1);
  const auto failed = device_->wait(1);
  EXPECT_EQ(failed.error().code, ErrorCode::kDevice);
  EXPECT_EQ(
      failed.error().message,
      "a pass on Metal failed (2 kernels, 'head_states' to 'head_states'): Caused GPU Address "
      "Fault Error (planted)");
  EXPECT_EQ(wait(1), "");
  expect_works(2);
}

TEST_F(MetalFaults, MemoryThatRunsOutInAPassIsAnErrorOfItsOwn) {
  open();
  fake_metal::set_faults({.command_buffer = 0, .command_error = kOutOfMemory});
  submit(1);
  EXPECT_EQ(device_->wait(1).error().code, ErrorCode::kNoMemory);
}

// The later pass signals more than the failed one would have.
TEST_F(MetalFaults, AFailureIsNotHiddenByALaterPass) {
  open();
  fake_metal::set_faults({.command_buffer = 0});
  submit(1);
  submit(2);
  EXPECT_THAT(wait(2), HasSubstr("planted"));
  EXPECT_EQ(wait(2), "");
  fake_metal::set_faults({.command_buffer = 1});
  submit(3);
  submit(4);
  EXPECT_EQ(wait(3), "");
  EXPECT_THAT(wait(4), HasSubstr("planted"));
}

TEST_F(MetalFaults, OfSeveralFailuresTheFirstIsTold) {
  open();
  fake_metal::set_faults({.command_buffer = 0, .no_command_buffer = 1});
  submit(1);
  submit(2);
  EXPECT_THAT(wait(2), HasSubstr("planted"));
  EXPECT_EQ(wait(2), "");
}

TEST_F(MetalFaults, AFailureThatComesBehindTheSignalIsToldByTheNextWait) {
  open();
  fake_metal::set_faults({.late_error = 0, .late_status_ms = 100});
  submit(1);
  EXPECT_EQ(wait(1), "");
  submit(2);
  EXPECT_THAT(wait(2), HasSubstr("Late"));
  expect_works(3);
}

TEST_F(MetalFaults, ALostSignalDoesNotMatterToAPassThatEnded) {
  open();
  fake_metal::set_faults({.lost_signal = 0});
  expect_works(1);
}

TEST_F(MetalFaults, WithoutACommandBufferThePassFailsAndTheNextWorks) {
  open();
  fake_metal::set_faults({.no_command_buffer = 0});
  submit(1);
  EXPECT_THAT(wait(1), HasSubstr("no command buffer"));
  expect_works(2);
}

TEST_F(MetalFaults, ASlowPassIsWaitedFor) {
  open({.answer_limit_ms = 5000});
  fake_metal::set_faults({.delay_ms = 300});
  expect_works(1);
}

TEST_F(MetalFaults, APassThatNeverEndsIsGivenUp) {
  open({.answer_limit_ms = 200});
  fake_metal::set_faults({.stuck = true});
  submit(1);
  submit(2);
  EXPECT_THAT(wait(2), HasSubstr("gave no answer for 0.2 s"));
  submit(3);
  EXPECT_THAT(wait(3), HasSubstr("does not answer any more"));
}

TEST_F(MetalFaults, AStuckDeviceThatIsClosedDoesNotHang) {
  open({.answer_limit_ms = 200});
  fake_metal::set_faults({.stuck = true});
  submit(1);
}

TEST_F(MetalFaults, APassThatComesAfterItWasGivenUpFindsWhatItNames) {
  open({.answer_limit_ms = 50});
  fake_metal::set_faults({.delay_ms = 300});
  submit(1);
  EXPECT_THAT(wait(1), HasSubstr("gave no answer"));
  device_.reset();
  EXPECT_NE(*z_.as<float>(), 0.0f);  // The stand-in ends what it began before it goes.
}

TEST_F(MetalFaults, ATimedPassThatComesTooLateFindsWhatItNames) {
  open({.answer_limit_ms = 50});
  fake_metal::set_faults({.delay_ms = 300});
  EXPECT_THAT(device_->time(two_norms(), 1).error().message, HasSubstr("gave no answer"));
  device_.reset();
  EXPECT_NE(*z_.as<float>(), 0.0f);
}

TEST_F(MetalFaults, AFullQueueThatIsStuckIsGivenUpToo) {
  open({.answer_limit_ms = 200});
  fake_metal::set_faults({.stuck = true});
  const auto recording = *device_->build(two_norms());
  for (Ticket t = 1; t <= 40; ++t) device_->submit(recording, t);
  EXPECT_THAT(wait(40), HasSubstr("gave no answer"));
}

}  // namespace
}  // namespace lily::gpu::metal
