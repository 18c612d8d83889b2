// What encoders and command buffers refuse, and their methods.
#include "tests/metal/fake/commands.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "tests/metal/fake/machine.h"

namespace lily::fake_metal {
namespace {

constexpr std::size_t kOffsetStep = 256, kMostBytes = 4096;

std::size_t product(const Size3& s) {
  return s.x * s.y * s.z;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

bool FakeCommandBuffer::open(const char* doing) const {
  if (committed) return misuse(std::string(doing) + " a command buffer that is committed"), false;
  if (has_encoder) return misuse(std::string(doing) + " while an encoder is open"), false;
  return true;
}

void FakeCommandBuffer::commit() {
  if (!open("commit")) return;
  committed = true;
  {
    const std::lock_guard lock(mutex_);
    status_ = 2;
  }
  queue.enqueue(this);
}

void FakeCommandBuffer::end(long error_code, std::string error_text) {
  const std::lock_guard lock(mutex_);
  error_code_ = error_code;
  error_text_ = std::move(error_text);
  end_time_ = now();
  status_ = error_text_.empty() ? 4 : 5;
}

void FakeCommandBuffer::started() {
  const std::lock_guard lock(mutex_);
  start_time_ = now();
}

std::size_t FakeCommandBuffer::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

Object* FakeCommandBuffer::error() const {
  const std::lock_guard lock(mutex_);
  return status_ == 5 ? autoreleased(new ErrorObject(error_code_, error_text_)) : nullptr;
}

const Methods& FakeCommandBuffer::methods() const {
  using Buffer = FakeCommandBuffer;
  static const Methods table =
      Methods()
          .add("computeCommandEncoderWithDispatchType:",
               [](Buffer* self, Selector, std::size_t type) -> Object* {
                 if (!self->open("an encoder for")) return nullptr;
                 if (type != 1) misuse("a serial encoder: barriers would mean nothing");
                 return autoreleased(new FakeEncoder(*self));
               })
          .add("encodeSignalEvent:value:",
               [](Buffer* self, Selector, FakeEvent* event, std::uint64_t value) {
                 if (!self->open("a signal for")) return;
                 self->commands.push_back(
                     {.kind = Command::Kind::kSignal, .event = event, .value = value});
               })
          .add("commit", [](Buffer* self, Selector) { self->commit(); })
          .add("status", [](Buffer* self, Selector) { return self->status(); })
          .add("error", [](Buffer* self, Selector) { return self->error(); })
          .add("GPUStartTime", [](Buffer* self, Selector) { return self->start_time(); })
          .add("GPUEndTime", [](Buffer* self, Selector) { return self->end_time(); });
  return table;
}

FakeEncoder::FakeEncoder(FakeCommandBuffer& buffer) : Object("FakeEncoder"), buffer_(buffer) {
  buffer.retain();
  buffer.has_encoder = true;
}

FakeEncoder::~FakeEncoder() {
  if (!ended_) misuse("an encoder is freed before endEncoding");
  buffer_.release();
}

bool FakeEncoder::ready(const char* doing) const {
  if (ended_) misuse(std::string(doing) + " behind endEncoding");
  return !ended_;
}

void FakeEncoder::wait_for(FakeFence* fence) {
  if (!ready("waitForFence")) return;
  if (buffer_.updates.contains(fence)) return misuse("waitForFence behind updateFence");
  buffer_.waits.insert(fence);
}

void FakeEncoder::update(FakeFence* fence) {
  if (ready("updateFence")) buffer_.updates.insert(fence);
}

void FakeEncoder::set_bytes(const std::byte* bytes, std::size_t n, std::size_t index) {
  if (!ready("setBytes")) return;
  if (n >= kMostBytes)
    return misuse("setBytes: " + std::to_string(n) + " bytes, less than 4096 expected");
  if (index != 0) return misuse("arguments at an index that no kernel has");
  bytes_.assign(bytes, bytes + n);
  arguments_ = nullptr;
}

void FakeEncoder::set_buffer(FakeBuffer* buffer, std::size_t offset, std::size_t index) {
  if (!ready("setBuffer")) return;
  if (index != 0) return misuse("arguments at an index that no kernel has");
  arguments_ = buffer;
  set_offset(offset, index);
}

void FakeEncoder::set_offset(std::size_t offset, std::size_t index) {
  if (!ready("setBufferOffset")) return;
  if (index != 0 || arguments_ == nullptr) return misuse("setBufferOffset: no buffer is set");
  if (offset % kOffsetStep != 0) return misuse("an offset that is no multiple of 256");
  if (offset >= arguments_->bytes()) return misuse("an offset past the end of its buffer");
  offset_ = offset;
}

bool FakeEncoder::good_arguments() const {
  const std::size_t wanted = pipeline->kernel->args_bytes;
  const std::size_t has = arguments_ == nullptr
                              ? bytes_.size()
                              : arguments_->bytes() - std::min(offset_, arguments_->bytes());
  if (has < wanted) misuse("dispatch: arguments are missing or short");
  return has >= wanted;
}

bool FakeEncoder::good_size(const Size3& groups, const Size3& threads) const {
  if (product(groups) == 0 || product(threads) == 0) return misuse("dispatch of nothing"), false;
  if (product(threads) <= pipeline->max_threads) return true;
  misuse("dispatch: more threads than maxTotalThreadsPerThreadgroup");
  return false;
}

void FakeEncoder::dispatch(Size3 groups, Size3 threads) {
  if (!ready("dispatch")) return;
  if (pipeline == nullptr) return misuse("dispatch without a pipeline");
  if (!good_arguments() || !good_size(groups, threads)) return;
  buffer_.commands.push_back({.kind = Command::Kind::kDispatch,
                              .kernel = pipeline->kernel,
                              .arguments = arguments_,
                              .bytes = bytes_,
                              .offset = offset_,
                              .groups = groups,
                              .threads = threads});
}

void FakeEncoder::barrier(std::size_t scope) {
  if (!ready("memoryBarrier")) return;
  if (scope != 1) return misuse("a barrier that leaves buffers out");
  buffer_.commands.push_back({.kind = Command::Kind::kBarrier});
}

void FakeEncoder::end() {
  if (!ready("endEncoding")) return;
  ended_ = true;
  buffer_.has_encoder = false;
}

const Methods& FakeEncoder::methods() const {
  using E = FakeEncoder;
  static const Methods table =
      Methods()
          .add("waitForFence:", [](E* self, Selector, FakeFence* f) { self->wait_for(f); })
          .add("updateFence:", [](E* self, Selector, FakeFence* f) { self->update(f); })
          .add("setComputePipelineState:",
               [](E* self, Selector, FakePipeline* p) { self->pipeline = p; })
          .add("setBytes:length:atIndex:",
               [](E* self, Selector, const std::byte* bytes, std::size_t n, std::size_t index) {
                 self->set_bytes(bytes, n, index);
               })
          .add("setBuffer:offset:atIndex:",
               [](E* self, Selector, FakeBuffer* b, std::size_t offset, std::size_t index) {
                 self->set_buffer(b, offset, index);
               })
          .add("setBufferOffset:atIndex:",
               [](E* self, Selector, std::size_t offset, std::size_t index) {
                 self->set_offset(offset, index);
               })
          .add("dispatchThreadgroups:threadsPerThreadgroup:",
               [](E* self, Selector, Size3 groups, Size3 threads) {
                 self->dispatch(groups, threads);
               })
          .add("memoryBarrierWithScope:",
               [](E* self, Selector, std::size_t scope) { self->barrier(scope); })
          .add("endEncoding", [](E* self, Selector) { self->end(); });
  return table;
}

}  // namespace lily::fake_metal
