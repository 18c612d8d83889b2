// Buffers, residency sets, events and fences of the stand-in.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>

#include "tests/metal/fake/runtime.h"

namespace lily::fake_metal {

class FakeBuffer final : public Object {
 public:
  // Memory of its own, zeroed. Null where the system has none.
  static FakeBuffer* create(std::size_t bytes);
  // Over pages of the host's. The GPU sees them as they were now, and may not write them: it is
  // meant for weights.
  static FakeBuffer* wrap(std::byte* pages, std::size_t bytes);
  ~FakeBuffer() override;
  const Methods& methods() const override;

  std::byte* contents() const { return contents_; }
  std::byte* gpu() const { return gpu_; }
  std::size_t bytes() const { return bytes_; }

 private:
  FakeBuffer(std::byte* contents, std::byte* gpu, std::size_t bytes, bool owns);
  std::byte* contents_;
  std::byte* gpu_;
  std::size_t bytes_;
  bool owns_contents_;
};

// Keeps what it holds. Changes count from commit on.
class FakeResidencySet final : public Object {
 public:
  FakeResidencySet() : Object("FakeResidencySet") {}
  ~FakeResidencySet() override;
  const Methods& methods() const override;

  void add(FakeBuffer* buffer);
  void remove(FakeBuffer* buffer);
  void commit();
  // Each kept for the caller, who releases it.
  std::set<FakeBuffer*> resident() const;

 private:
  mutable std::mutex mutex_;
  std::set<FakeBuffer*> wanted_, resident_;
};

class FakeEvent final : public Object {
 public:
  FakeEvent() : Object("FakeEvent") {}
  const Methods& methods() const override;
  void signal(std::uint64_t value);
  bool wait(std::uint64_t value, std::uint64_t limit_ms);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t value_ = 0;
};

class FakeFence final : public Object {
 public:
  FakeFence() : Object("FakeFence") {}
  const Methods& methods() const override;
  std::uint64_t updated_by = 0;  // Number of the queue's last command buffer that updates it.
};

}  // namespace lily::fake_metal
