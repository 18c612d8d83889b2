// Memory seen from two sides, residency, events.
#include "tests/metal/fake/resources.h"

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "tests/metal/fake/machine.h"

namespace lily::fake_metal {
namespace {

class Descriptor final : public Object {
 public:
  Descriptor() : Object("MTLResidencySetDescriptor") {}
  const Methods& methods() const override {
    static const Methods none;
    return none;
  }
};

std::byte* map_shared(void* at, std::size_t bytes, int file) {
  const int where = at == nullptr ? 0 : MAP_FIXED;
  void* mapped = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | where, file, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<std::byte*>(mapped);
}

}  // namespace

Methods residency_descriptor_factory() {
  return Methods().add("new", [](Object*, Selector) -> Object* { return new Descriptor; });
}

FakeBuffer::FakeBuffer(std::byte* contents, std::byte* gpu, std::size_t bytes, bool owns)
    : Object("FakeBuffer"), contents_(contents), gpu_(gpu), bytes_(bytes), owns_contents_(owns) {
  register_buffer(*this, true);
}

FakeBuffer* FakeBuffer::create(std::size_t bytes) {
  const int file = memfd_create("fake-metal-buffer", 0);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return nullptr;
  std::byte* gpu = map_shared(reserve_gpu_addresses(bytes), bytes, file);
  std::byte* contents = map_shared(nullptr, bytes, file);
  close(file);
  return gpu && contents ? new FakeBuffer(contents, gpu, bytes, true) : nullptr;
}

FakeBuffer* FakeBuffer::wrap(std::byte* pages, std::size_t bytes) {
  void* gpu = mmap(reserve_gpu_addresses(bytes), bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (gpu == MAP_FAILED) return nullptr;
  std::memcpy(gpu, pages, bytes);
  mprotect(gpu, bytes, PROT_READ);
  return new FakeBuffer(pages, static_cast<std::byte*>(gpu), bytes, false);
}

FakeBuffer::~FakeBuffer() {
  register_buffer(*this, false);
  give_up_gpu_addresses(gpu_, bytes_);
  if (owns_contents_) munmap(contents_, bytes_);
}

const Methods& FakeBuffer::methods() const {
  static const Methods table =
      Methods()
          .add("contents", [](FakeBuffer* self, Selector) -> void* { return self->contents_; })
          .add("gpuAddress", [](FakeBuffer* self, Selector) {
            return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(self->gpu_));
          });
  return table;
}

FakeResidencySet::~FakeResidencySet() {
  for (FakeBuffer* buffer : resident_) wanted_.insert(buffer);
  for (FakeBuffer* buffer : wanted_) buffer->release();
}

void FakeResidencySet::add(FakeBuffer* buffer) {
  const std::lock_guard lock(mutex_);
  if (!wanted_.insert(buffer).second)
    return misuse("a residency set is given a buffer that it has");
  if (!resident_.contains(buffer)) buffer->retain();
}

void FakeResidencySet::remove(FakeBuffer* buffer) {
  const std::lock_guard lock(mutex_);
  if (wanted_.erase(buffer) == 0) return misuse("a residency set is asked to drop what it lacks");
  if (!resident_.contains(buffer)) buffer->release();
}

void FakeResidencySet::commit() {
  const std::lock_guard lock(mutex_);
  const auto before = std::exchange(resident_, wanted_);
  for (FakeBuffer* buffer : before)
    if (!wanted_.contains(buffer)) buffer->release();
}

std::set<FakeBuffer*> FakeResidencySet::resident() const {
  const std::lock_guard lock(mutex_);
  for (FakeBuffer* buffer : resident_) buffer->retain();
  return resident_;
}

const Methods& FakeResidencySet::methods() const {
  using Set = FakeResidencySet;
  static const Methods table =
      Methods()
          .add("addAllocation:", [](Set* self, Selector, FakeBuffer* b) { self->add(b); })
          .add("removeAllocation:", [](Set* self, Selector, FakeBuffer* b) { self->remove(b); })
          .add("commit", [](Set* self, Selector) { self->commit(); })
          .add("requestResidency", [](Set*, Selector) { count_residency_request(); });
  return table;
}

void FakeEvent::signal(std::uint64_t value) {
  const std::lock_guard lock(mutex_);
  value_ = value;
  changed_.notify_all();
}

bool FakeEvent::wait(std::uint64_t value, std::uint64_t limit_ms) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(limit_ms),
                           [&] { return value_ >= value; });
}

const Methods& FakeEvent::methods() const {
  static const Methods table =
      Methods().add("waitUntilSignaledValue:timeoutMS:",
                    [](FakeEvent* self, Selector, std::uint64_t value, std::uint64_t limit_ms) {
                      return self->wait(value, limit_ms);
                    });
  return table;
}

const Methods& FakeFence::methods() const {
  static const Methods none;
  return none;
}

}  // namespace lily::fake_metal
