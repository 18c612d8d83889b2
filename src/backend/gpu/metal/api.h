// The part of Metal that Lily uses: a class for each protocol, with the messages that are sent to
// it. Every selector of Metal's stands in this file; numbers are those of Metal's headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "backend/gpu/metal/objc.h"

extern "C" void* MTLCreateSystemDefaultDevice();

namespace lily::gpu::metal {

struct Size3 {  // MTLSize
  std::size_t x, y, z;
};
struct OsVersion {  // NSOperatingSystemVersion
  long major, minor, patch;
};

inline constexpr std::size_t kSharedUntracked =
    0 | 1 << 8;  // MTLResourceOptions: storage shared, hazards untracked
inline constexpr std::size_t kConcurrent = 1;    // MTLDispatchType
inline constexpr std::size_t kScopeBuffers = 1;  // MTLBarrierScope
inline constexpr long kFamilyApple7 = 1007;      // MTLGPUFamily: M1 and later
inline constexpr long kMathSafe = 0;             // MTLMathMode
inline constexpr long kFunctionsPrecise = 1;     // MTLMathFloatingPointFunctions
inline constexpr long kOutOfMemory = 8;          // MTLCommandBufferError
enum class Status : std::size_t {
  kCompleted = 4,
  kError = 5
};  // MTLCommandBufferStatus; below 4: under way

inline bool os_at_least(long major) {
  const Id process = send<Id, "processInfo">(objc_getClass("NSProcessInfo"));
  return send<bool, "isOperatingSystemAtLeastVersion:">(process, OsVersion{major, 0, 0});
}

struct DeviceBuffer : Ref {
  explicit DeviceBuffer(Ref ref) : Ref(std::move(ref)) {}
  void* contents() const { return send<void*, "contents">(id()); }
  std::uint64_t gpu_address() const { return send<std::uint64_t, "gpuAddress">(id()); }
};

// Changes count from the next commit() on.
struct ResidencySet : Ref {
  explicit ResidencySet(Ref ref) : Ref(std::move(ref)) {}
  void add(const Ref& allocation) const { send<void, "addAllocation:">(id(), allocation.id()); }
  void remove(const Ref& allocation) const {
    send<void, "removeAllocation:">(id(), allocation.id());
  }
  void commit() const { send<void, "commit">(id()); }
  void request() const { send<void, "requestResidency">(id()); }
};

struct SharedEvent : Ref {
  explicit SharedEvent(Ref ref) : Ref(std::move(ref)) {}
  bool wait(std::uint64_t value, std::uint64_t limit_ms) const {
    return send<bool, "waitUntilSignaledValue:timeoutMS:">(id(), value, limit_ms);
  }
};

struct Pipeline : Ref {
  explicit Pipeline(Ref ref) : Ref(std::move(ref)) {}
  std::size_t max_threads() const {
    return send<std::size_t, "maxTotalThreadsPerThreadgroup">(id());
  }
  std::size_t simd_width() const { return send<std::size_t, "threadExecutionWidth">(id()); }
};

struct Library : Ref {
  explicit Library(Ref ref) : Ref(std::move(ref)) {}
  Ref function(const std::string& name) const {
    return owned(send<Id, "newFunctionWithName:">(id(), string_object(name)));
  }
};

struct CompileOptions : Ref {
  CompileOptions() : Ref(owned(send<Id, "new">(objc_getClass("MTLCompileOptions")))) {}
  void language(std::size_t version) const { send<void, "setLanguageVersion:">(id(), version); }
  void math_mode(long mode) const { send<void, "setMathMode:">(id(), mode); }
  void math_functions(long kind) const { send<void, "setMathFloatingPointFunctions:">(id(), kind); }
};

// Kept by the pool, like the encoder's methods until end().
class Encoder {
 public:
  explicit Encoder(Id object) : object_(object) {}
  Id id() const { return object_; }
  void wait_for(const Ref& fence) const { send<void, "waitForFence:">(object_, fence.id()); }
  void update(const Ref& fence) const { send<void, "updateFence:">(object_, fence.id()); }
  void pipeline(Id state) const { send<void, "setComputePipelineState:">(object_, state); }
  void arguments(Id buffer) const {
    send<void, "setBuffer:offset:atIndex:">(object_, buffer, std::size_t{0}, std::size_t{0});
  }
  void arguments_at(std::size_t offset) const {
    send<void, "setBufferOffset:atIndex:">(object_, offset, std::size_t{0});
  }
  void dispatch(Size3 groups, Size3 threads) const {
    send<void, "dispatchThreadgroups:threadsPerThreadgroup:">(object_, groups, threads);
  }
  void barrier() const { send<void, "memoryBarrierWithScope:">(object_, kScopeBuffers); }
  void end() const { send<void, "endEncoding">(object_); }

 private:
  Id object_;
};

struct CommandBuffer : Ref {
  explicit CommandBuffer(Ref ref) : Ref(std::move(ref)) {}
  Encoder encoder() const {
    return Encoder(send<Id, "computeCommandEncoderWithDispatchType:">(id(), kConcurrent));
  }
  void signal(const SharedEvent& event, std::uint64_t value) const {
    send<void, "encodeSignalEvent:value:">(id(), event.id(), value);
  }
  void commit() const { send<void, "commit">(id()); }
  Status status() const { return send<Status, "status">(id()); }
  Id error() const { return send<Id, "error">(id()); }
  // That the GPU spent on it, once it is completed.
  double seconds() const {
    return send<double, "GPUEndTime">(id()) - send<double, "GPUStartTime">(id());
  }
};

struct CommandQueue : Ref {
  explicit CommandQueue(Ref ref) : Ref(std::move(ref)) {}
  void add(const ResidencySet& set) const { send<void, "addResidencySet:">(id(), set.id()); }
  // Keeps no reference to what its commands use.
  CommandBuffer commands() const {
    return CommandBuffer(shared(send<Id, "commandBufferWithUnretainedReferences">(id())));
  }
};

struct SystemDevice : Ref {
  SystemDevice() : Ref(owned(MTLCreateSystemDefaultDevice())) {}
  std::string name() const { return string_of(send<Id, "name">(id())); }
  bool supports(long family) const { return send<bool, "supportsFamily:">(id(), family); }
  std::size_t max_buffer_bytes() const { return send<std::size_t, "maxBufferLength">(id()); }
  std::uint64_t working_set_bytes() const {
    return send<std::uint64_t, "recommendedMaxWorkingSetSize">(id());
  }
  // Cleared. Nil where there is no memory.
  DeviceBuffer buffer(std::size_t bytes) const {
    return DeviceBuffer(
        owned(send<Id, "newBufferWithLength:options:">(id(), bytes, kSharedUntracked)));
  }
  // Over whole pages of the host's.
  DeviceBuffer wrap(void* pages, std::size_t bytes) const {
    return DeviceBuffer(owned(send<Id, "newBufferWithBytesNoCopy:length:options:deallocator:">(
        id(), pages, bytes, kSharedUntracked, Id{nullptr})));
  }
  CommandQueue queue() const { return CommandQueue(owned(send<Id, "newCommandQueue">(id()))); }
  SharedEvent event() const { return SharedEvent(owned(send<Id, "newSharedEvent">(id()))); }
  Ref fence() const { return owned(send<Id, "newFence">(id())); }
  ResidencySet residency_set(Id& error) const {
    const Ref how = owned(send<Id, "new">(objc_getClass("MTLResidencySetDescriptor")));
    return ResidencySet(
        owned(send<Id, "newResidencySetWithDescriptor:error:">(id(), how.id(), &error)));
  }
  Library library(const std::string& source, const CompileOptions& options, Id& error) const {
    return Library(owned(send<Id, "newLibraryWithSource:options:error:">(
        id(), string_object(source), options.id(), &error)));
  }
  Pipeline pipeline(const Ref& function, Id& error) const {
    return Pipeline(
        owned(send<Id, "newComputePipelineStateWithFunction:error:">(id(), function.id(), &error)));
  }
};

}  // namespace lily::gpu::metal
