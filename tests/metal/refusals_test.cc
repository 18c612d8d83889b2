// The stand-in refuses what Metal refuses: each misuse is committed once, on purpose. Without these
// a test that passes on the stand-in would show little.
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "backend/gpu/kernels/copy_params.h"
#include "backend/gpu/metal/sources.h"
#include "tests/metal/metal.h"

namespace lily::gpu::metal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Refusals : public OnFakeMetal {
 protected:
  void SetUp() override {
    OnFakeMetal::SetUp();
    pool_ = std::make_unique<Pool>();
    device_ = std::make_unique<SystemDevice>();
    Id error = nullptr;
    set_ = std::make_unique<ResidencySet>(device_->residency_set(error));
    queue_ = std::make_unique<CommandQueue>(device_->queue());
    queue_->add(*set_);
    event_ = std::make_unique<SharedEvent>(device_->event());
    fence_ = std::make_unique<Ref>(device_->fence());
    library_ =
        std::make_unique<Library>(*compile(*device_, "backend/gpu/kernels/copy.cc", kLanguages[1]));
    pipeline_ =
        std::make_unique<Pipeline>(*make_pipeline(*device_, *library_, *find_kernel("copy_bytes")));
  }
  void TearDown() override {
    pool_.reset();
    for (Ref* r :
         std::initializer_list<Ref*>{pipeline_.get(), library_.get(), fence_.get(), event_.get()})
      *r = Ref();
    *static_cast<Ref*>(queue_.get()) = Ref();
    *static_cast<Ref*>(set_.get()) = Ref();
    *static_cast<Ref*>(device_.get()) = Ref();
    OnFakeMetal::TearDown();
  }

  // What the call was refused with; one misuse.
  template <typename F>
  static std::string misuse_of(F call) {
    call();
    const auto seen = fake_metal::take_misuse();
    EXPECT_EQ(seen.size(), 1u) << ::testing::PrintToString(seen);
    return seen.empty() ? "" : seen.front();
  }
  DeviceBuffer resident_buffer(std::size_t bytes) {
    DeviceBuffer buffer = device_->buffer(bytes);
    set_->add(buffer);
    set_->commit();
    return buffer;
  }
  // Ends well where nothing else is said: a command buffer of its own for one call.
  template <typename F>
  std::string misuse_in_encoder(F call) {
    const Pool pool;
    const auto commands = queue_->commands();
    const Encoder encoder = commands.encoder();
    const std::string seen = misuse_of([&] { call(encoder); });
    encoder.end();
    return seen;
  }
  // A command buffer with what `encode` puts into it; the error that it ends with.
  template <typename F>
  std::string error_of(F encode) {
    const Pool pool;
    const auto commands = queue_->commands();
    const Encoder encoder = commands.encoder();
    encoder.wait_for(*fence_);
    encode(encoder);
    encoder.update(*fence_);
    encoder.end();
    commands.commit();
    while (commands.status() < Status::kCompleted) usleep(100);
    return commands.status() == Status::kError ? error_text(commands.error()) : "";
  }
  // A copy of 64 bytes within one buffer, by arguments at the start of another.
  static void put_copy(const DeviceBuffer& arguments, std::uint64_t from, std::uint64_t to) {
    const CopyParams params{reinterpret_cast<const unsigned char*>(from),
                            reinterpret_cast<unsigned char*>(to), 64, 0};
    std::memcpy(arguments.contents(), &params, sizeof params);
  }
  void copy(const Encoder& encoder, const DeviceBuffer& arguments) const {
    encoder.pipeline(pipeline_->id());
    encoder.arguments(arguments.id());
    encoder.dispatch({1, 1, 1}, {32, 1, 1});
  }

  std::unique_ptr<Pool> pool_;
  std::unique_ptr<SystemDevice> device_;
  std::unique_ptr<ResidencySet> set_;
  std::unique_ptr<CommandQueue> queue_;
  std::unique_ptr<SharedEvent> event_;
  std::unique_ptr<Ref> fence_;
  std::unique_ptr<Library> library_;
  std::unique_ptr<Pipeline> pipeline_;
};

TEST_F(Refusals, BuffersOfNoBytesOrOfTooMany) {
  EXPECT_THAT(misuse_of([&] { (void)device_->buffer(0); }), HasSubstr("no bytes"));
  const std::size_t most = device_->max_buffer_bytes();
  EXPECT_THAT(misuse_of([&] { (void)device_->buffer(most + 1); }), HasSubstr("maxBufferLength"));
}

TEST_F(Refusals, MemoryThatIsNotWholePages) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(page, 2 * page),
                                                           std::free);
  auto* const bytes = static_cast<std::byte*>(memory.get());
  EXPECT_TRUE(device_->wrap(bytes, page));
  EXPECT_THAT(misuse_of([&] { (void)device_->wrap(bytes + 64, page); }), HasSubstr("address"));
  EXPECT_THAT(misuse_of([&] { (void)device_->wrap(bytes, page + 64); }), HasSubstr("whole pages"));
  EXPECT_THAT(misuse_of([&] { (void)device_->wrap(bytes, 0); }), HasSubstr("whole pages"));
  fake_metal::reset({.max_buffer_bytes = page});
  EXPECT_THAT(misuse_of([&] { (void)device_->wrap(bytes, 2 * page); }),
              HasSubstr("maxBufferLength"));
}

TEST_F(Refusals, LanguagesThatTheSystemDoesNotHaveAndFastMathematics) {
  const std::string source = *flatten(bundled_sources(), "backend/gpu/kernels/copy.cc");
  const auto error_with = [&](std::size_t language, long math, long functions,
                              const std::string& text) {
    const CompileOptions options;
    options.language(language);
    options.math_mode(math);
    options.math_functions(functions);
    Id error = nullptr;
    return device_->library(text, options, error) ? "" : error_text(error);
  };
  EXPECT_EQ(error_with(4 << 16, 0, 1, source), "");
  EXPECT_THAT(error_with((4 << 16) + 1, 0, 1, source), HasSubstr("language version"));
  EXPECT_THAT(error_with(0, 0, 1, source), HasSubstr("language version"));
  EXPECT_THAT(error_with(4 << 16, 2, 1, source), HasSubstr("safe mathematics"));
  EXPECT_THAT(error_with(4 << 16, 0, 0, source), HasSubstr("precise"));
  EXPECT_THAT(error_with(4 << 16, 0, 1, "#include \"more.h\"\n" + source), HasSubstr("not found"));
  EXPECT_THAT(error_with(4 << 16, 0, 1, "kernel void f() {}"), HasSubstr("unknown type"));
  EXPECT_FALSE(library_->function("head_states"));  // Of another file.
}

TEST_F(Refusals, ArgumentsThatAreLongOrUnalignedOrMissing) {
  const DeviceBuffer buffer = device_->buffer(1024);
  const std::vector<std::byte> bytes(4096);
  const auto set_bytes = [&](const Encoder& e, std::size_t n, std::size_t index) {
    send<void, "setBytes:length:atIndex:">(e.id(), bytes.data(), n, index);
  };
  EXPECT_THAT(misuse_in_encoder([&](auto& e) { set_bytes(e, 4096, 0); }),
              HasSubstr("less than 4096"));
  EXPECT_THAT(misuse_in_encoder([&](auto& e) { set_bytes(e, 64, 1); }), HasSubstr("index"));
  const auto at = [&](const Encoder& e, std::size_t offset) {
    e.arguments(buffer.id());
    e.arguments_at(offset);
  };
  EXPECT_THAT(misuse_in_encoder([&](auto& e) { at(e, 128); }), HasSubstr("multiple of 256"));
  EXPECT_THAT(misuse_in_encoder([&](auto& e) { at(e, 1024); }), HasSubstr("past the end"));
  EXPECT_THAT(misuse_in_encoder([&](auto& e) { e.arguments_at(0); }), HasSubstr("no buffer"));
  const auto dispatch = [&](const Encoder& e) { e.dispatch({1, 1, 1}, {32, 1, 1}); };
  EXPECT_THAT(misuse_in_encoder([&](auto& e) {
                e.pipeline(pipeline_->id());
                dispatch(e);
              }),
              HasSubstr("arguments are missing"));
  EXPECT_THAT(misuse_in_encoder([&](auto& e) {
                e.arguments(buffer.id());
                dispatch(e);
              }),
              HasSubstr("without a pipeline"));
}

TEST_F(Refusals, GroupsOfNothingOrOfTooManyThreads) {
  const DeviceBuffer buffer = device_->buffer(1024);
  const auto dispatch = [&](const Encoder& e, Size3 groups, Size3 threads) {
    e.pipeline(pipeline_->id());
    e.arguments(buffer.id());
    e.dispatch(groups, threads);
  };
  EXPECT_THAT(misuse_in_encoder([&](auto& e) {
                dispatch(e, {1, 1, 1}, {pipeline_->max_threads() + 32, 1, 1});
              }),
              HasSubstr("maxTotalThreadsPerThreadgroup"));
  EXPECT_THAT(misuse_in_encoder([&](auto& e) {
                dispatch(e, {1, 0, 1}, {32, 1, 1});
              }),
              HasSubstr("nothing"));
}

TEST_F(Refusals, EncodersAndCommandBuffersOutOfTurn) {
  const Pool pool;
  const auto first = queue_->commands();
  const Encoder encoder = first.encoder();
  EXPECT_THAT(misuse_of([&] { (void)first.encoder(); }), HasSubstr("an encoder is open"));
  EXPECT_THAT(misuse_of([&] { first.commit(); }), HasSubstr("an encoder is open"));
  EXPECT_THAT(misuse_of([&] { first.signal(*event_, 1); }), HasSubstr("an encoder is open"));
  encoder.end();
  EXPECT_THAT(misuse_of([&] { encoder.barrier(); }), HasSubstr("behind endEncoding"));
  first.commit();
  EXPECT_THAT(misuse_of([&] { first.commit(); }), HasSubstr("committed"));
  EXPECT_THAT(misuse_of([&] { (void)first.encoder(); }), HasSubstr("committed"));
  EXPECT_THAT(misuse_of([&] {
                const Pool inner;
                (void)queue_->commands().encoder();
              }),
              HasSubstr("freed before endEncoding"));
  EXPECT_THAT(misuse_of([&] {
                const auto other = queue_->commands();
                const auto serial =
                    send<Id, "computeCommandEncoderWithDispatchType:">(other.id(), std::size_t{0});
                Encoder(serial).end();
              }),
              HasSubstr("serial"));
  EXPECT_THAT(misuse_in_encoder(
                  [&](auto& e) { send<void, "memoryBarrierWithScope:">(e.id(), std::size_t{2}); }),
              HasSubstr("leaves buffers out"));
}

TEST_F(Refusals, CommandBuffersThatNoFenceOrders) {
  const Pool pool;
  const auto empty = [&](bool waits, bool updates) {
    const auto commands = queue_->commands();
    const Encoder encoder = commands.encoder();
    if (waits) encoder.wait_for(*fence_);
    if (updates) encoder.update(*fence_);
    encoder.end();
    commands.commit();
  };
  empty(true, true);
  empty(true, true);
  EXPECT_THAT(misuse_of([&] { empty(false, true); }), HasSubstr("no fence"));
  empty(true, false);
  EXPECT_THAT(misuse_of([&] { empty(true, true); }), HasSubstr("no fence"));
  EXPECT_THAT(misuse_in_encoder([&](auto& e) {
                e.update(*fence_);
                e.wait_for(*fence_);
              }),
              HasSubstr("behind updateFence"));
}

TEST_F(Refusals, ResidencyThatIsConfused) {
  const DeviceBuffer buffer = device_->buffer(64), other = device_->buffer(64);
  set_->add(buffer);
  EXPECT_THAT(misuse_of([&] { set_->add(buffer); }), HasSubstr("that it has"));
  EXPECT_THAT(misuse_of([&] { set_->remove(other); }), HasSubstr("what it lacks"));
}

TEST_F(Refusals, MemoryThatIsNotResidentFaults) {
  const DeviceBuffer memory = resident_buffer(256);
  const DeviceBuffer arguments = resident_buffer(256), stray = device_->buffer(256);
  put_copy(arguments, memory.gpu_address(), memory.gpu_address() + 128);
  EXPECT_EQ(error_of([&](auto& e) { copy(e, arguments); }), "");
  put_copy(arguments, memory.gpu_address(), stray.gpu_address());
  EXPECT_THAT(error_of([&](auto& e) { copy(e, arguments); }), HasSubstr("nothing is resident"));
  EXPECT_THAT(error_of([&](auto& e) { copy(e, stray); }), HasSubstr("not resident"));
  set_->add(stray);  // Counts from commit on.
  EXPECT_THAT(error_of([&](auto& e) { copy(e, arguments); }), HasSubstr("nothing is resident"));
  set_->commit();
  EXPECT_EQ(error_of([&](auto& e) { copy(e, arguments); }), "");
}

TEST_F(Refusals, ArgumentsThatAreFreedTooEarly) {
  const DeviceBuffer memory = resident_buffer(256);
  fake_metal::set_faults({.delay_ms = 50});
  auto arguments = std::make_unique<DeviceBuffer>(device_->buffer(256));
  put_copy(*arguments, memory.gpu_address(), memory.gpu_address() + 128);
  EXPECT_THAT(error_of([&](auto& e) {
                copy(e, *arguments);
                *static_cast<Ref*>(arguments.get()) = Ref();
              }),
              HasSubstr("Invalid Resource"));
}

TEST_F(Refusals, DispatchesThatNeedABarrier) {
#if defined(LILY_GPU_TSAN)
  GTEST_SKIP() << "accesses are not observed in builds with ThreadSanitizer";
#endif
  const DeviceBuffer memory = resident_buffer(256), first = resident_buffer(256),
                     second = resident_buffer(256);
  put_copy(first, memory.gpu_address(), memory.gpu_address() + 64);
  put_copy(second, memory.gpu_address() + 64, memory.gpu_address() + 128);
  const auto both = [&](bool barrier) {
    return error_of([&](auto& e) {
      copy(e, first);
      if (barrier) e.barrier();
      copy(e, second);
    });
  };
  EXPECT_EQ(both(true), "");
  EXPECT_THAT(both(false), HasSubstr("no barrier"));
}

TEST_F(Refusals, WhatIsLeftAliveIsCounted) {
  const long before = fake_metal::live_objects();
  {
    const DeviceBuffer kept = device_->buffer(64);
    EXPECT_EQ(fake_metal::live_objects(), before + 1);
    EXPECT_THAT(fake_metal::live_report(), HasSubstr("FakeBuffer"));
    const Pool pool;
    (void)string_object("kept by the pool");
    EXPECT_EQ(fake_metal::live_objects(), before + 2);
  }
  EXPECT_EQ(fake_metal::live_objects(), before);
}

using RefusalsDeathTest = Refusals;
TEST_F(RefusalsDeathTest, SelectorsThatNobodyAnswersTo) {
  EXPECT_DEATH((send<void, "makeCoffee">(device_->id())),
               "FakeDevice does not answer to 'makeCoffee'");
}

TEST_F(Refusals, MessagesToNilReturnZero) {
  EXPECT_EQ((send<std::size_t, "maxBufferLength">(nullptr)), 0u);
  EXPECT_EQ(string_of(nullptr), "");
}

}  // namespace
}  // namespace lily::gpu::metal
