// Command queues, command buffers and encoders of the stand-in.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backend/gpu/emulator/emulator.h"
#include "tests/metal/fake/compiler.h"
#include "tests/metal/fake/resources.h"

namespace lily::fake_metal {

struct Size3 {
  std::size_t x, y, z;
};

struct Command {
  enum class Kind { kDispatch, kBarrier, kSignal } kind = Kind::kBarrier;
  const gpu::Kernel* kernel = nullptr;
  FakeBuffer* arguments = nullptr;    // Not kept: command buffers are asked for without references.
  std::vector<std::byte> bytes = {};  // In place of `arguments`, copied when encoded.
  std::size_t offset = 0;
  Size3 groups{}, threads{};
  FakeEvent* event = nullptr;
  std::uint64_t value = 0;
};

class FakeQueue;

class FakeCommandBuffer final : public Object {
 public:
  explicit FakeCommandBuffer(FakeQueue& q) : Object("FakeCommandBuffer"), queue(q) {}
  const Methods& methods() const override;

  void commit();
  // Notes a misuse unless commands can still be encoded.
  bool open(const char* doing) const;
  void end(long error_code, std::string error_text);
  // Seconds of the host's clock. 0 until it is completed.
  double start_time() const { return status() >= 4 ? start_time_ : 0; }
  double end_time() const { return status() >= 4 ? end_time_ : 0; }
  void started();

  FakeQueue& queue;
  std::vector<Command> commands;
  std::set<FakeFence*> waits, updates;
  bool has_encoder = false, committed = false;

  std::size_t status() const;
  Object* error() const;

 private:
  mutable std::mutex mutex_;
  std::size_t status_ = 0;
  double start_time_ = 0, end_time_ = 0;
  long error_code_ = 0;
  std::string error_text_;
};

// Runs command buffers one after the other on a thread of its own.
class FakeQueue final : public Object {
 public:
  FakeQueue();
  ~FakeQueue() override;
  const Methods& methods() const override;

  void add(FakeResidencySet* set);
  void enqueue(FakeCommandBuffer* buffer);

 private:
  void serve();
  FakeCommandBuffer* next();
  void execute(FakeCommandBuffer& buffer);
  std::string run(const FakeCommandBuffer& buffer);
  std::string dispatch(const Command& command, const std::set<FakeBuffer*>& resident);
  std::set<FakeBuffer*> resident() const;
  void watch(const std::set<FakeBuffer*>& buffers, bool on);

  std::unique_ptr<gpu::Emulator> emulator_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<FakeResidencySet*> sets_;
  std::deque<FakeCommandBuffer*> waiting_;
  std::uint64_t enqueued_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

class FakeEncoder final : public Object {
 public:
  explicit FakeEncoder(FakeCommandBuffer& buffer);
  ~FakeEncoder() override;
  const Methods& methods() const override;

  void wait_for(FakeFence* fence);
  void update(FakeFence* fence);
  void set_bytes(const std::byte* bytes, std::size_t n, std::size_t index);
  void set_buffer(FakeBuffer* buffer, std::size_t offset, std::size_t index);
  void set_offset(std::size_t offset, std::size_t index);
  void dispatch(Size3 groups, Size3 threads);
  void barrier(std::size_t scope);
  void end();
  FakePipeline* pipeline = nullptr;

 private:
  bool ready(const char* doing) const;
  bool good_arguments() const;
  bool good_size(const Size3& groups, const Size3& threads) const;
  FakeCommandBuffer& buffer_;
  FakeBuffer* arguments_ = nullptr;
  std::vector<std::byte> bytes_;
  std::size_t offset_ = 0;
  bool ended_ = false;
};

}  // namespace lily::fake_metal
