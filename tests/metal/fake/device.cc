// The stand-in's MTLDevice, and the process that asks for its system's version.
#include <memory>

#include "tests/metal/fake/commands.h"
#include "tests/metal/fake/compiler.h"
#include "tests/metal/fake/machine.h"
#include "tests/metal/fake/resources.h"

namespace lily::fake_metal {
namespace {

struct OsVersion {
  long major, minor, patch;
};

class Device final : public Object {
 public:
  Device() : Object("FakeDevice") {}
  const Methods& methods() const override;
};

template <typename T>
Object* made() {
  return fault_due(&Faults::queue_object) ? nullptr : new T;
}

Object* residency_set(Device*, Selector, Object*, Object** error) {
  Object* set = made<FakeResidencySet>();
  if (set == nullptr) set_error(error, "residency sets are not to be had");
  return set;
}

Object* new_buffer(Device*, Selector, std::size_t bytes, std::size_t) {
  if (bytes == 0) return misuse("a buffer of no bytes"), nullptr;
  if (bytes > machine().max_buffer_bytes) return misuse("a buffer over maxBufferLength"), nullptr;
  return fault_due(&Faults::allocation) ? nullptr : FakeBuffer::create(bytes);
}

Object* wrap_buffer(Device*, Selector, std::byte* pages, std::size_t bytes, std::size_t, Object*) {
  if (reinterpret_cast<std::uintptr_t>(pages) % page_bytes() != 0)
    return misuse("bytesNoCopy: the address is not at a page"), nullptr;
  if (bytes == 0 || bytes % page_bytes() != 0)
    return misuse("bytesNoCopy: the length is not whole pages"), nullptr;
  if (bytes > machine().max_buffer_bytes) return misuse("a buffer over maxBufferLength"), nullptr;
  return fault_due(&Faults::allocation) ? nullptr : FakeBuffer::wrap(pages, bytes);
}

Object* new_library(Device*, Selector, String* source, FakeCompileOptions* options,
                    Object** error) {
  const auto defaults = std::make_unique<FakeCompileOptions>();
  std::string why;
  Object* library = make_library(source->text, options ? *options : *defaults, why);
  if (library == nullptr) set_error(error, why);
  return library;
}

Object* new_pipeline(Device*, Selector, FakeFunction* function, Object** error) {
  std::string why;
  Object* pipeline = make_pipeline(*function, why);
  if (pipeline == nullptr) set_error(error, why);
  return pipeline;
}

const Methods& Device::methods() const {
  static const Methods table =
      Methods()
          .add("name",
               [](Device*, Selector) -> Object* { return autoreleased(new String("Fake M9")); })
          .add("supportsFamily:",
               [](Device*, Selector, long family) {
                 return family > 1000 && family <= machine().family;
               })
          .add("maxBufferLength", [](Device*, Selector) { return machine().max_buffer_bytes; })
          .add("recommendedMaxWorkingSetSize",
               [](Device*, Selector) { return machine().working_set_bytes; })
          .add("newCommandQueue", [](Device*, Selector) { return made<FakeQueue>(); })
          .add("newSharedEvent", [](Device*, Selector) { return made<FakeEvent>(); })
          .add("newFence", [](Device*, Selector) { return made<FakeFence>(); })
          .add("newResidencySetWithDescriptor:error:", residency_set)
          .add("newBufferWithLength:options:", new_buffer)
          .add("newBufferWithBytesNoCopy:length:options:deallocator:", wrap_buffer)
          .add("newLibraryWithSource:options:error:", new_library)
          .add("newComputePipelineStateWithFunction:error:", new_pipeline);
  return table;
}

class Process final : public Object {
 public:
  Process() : Object("NSProcessInfo") {}
  const Methods& methods() const override {
    static const Methods table = Methods().add(
        "isOperatingSystemAtLeastVersion:",
        [](Process*, Selector, OsVersion asked) { return machine().os_major >= asked.major; });
    return table;
  }
};

}  // namespace

Methods process_methods() {
  return Methods().add("processInfo",
                       [](Object*, Selector) -> Object* { return autoreleased(new Process); });
}

extern "C" void* MTLCreateSystemDefaultDevice() {
  return machine().has_device ? new Device : nullptr;
}

}  // namespace lily::fake_metal
