// The threads that make blocks: any order into memory, or in order towards a file with a few blocks of head start.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "weights/hash.h"
#include "weights/pack.h"

namespace lily {
namespace {

constexpr unsigned kMaxMemoryThreads = 8;
constexpr unsigned kFileThreads = 2;
constexpr std::size_t kSlots = 6;  // Blocks in flight: 96 MiB.

std::size_t block_bytes(const ImageHeader& header, std::uint64_t block) {
  return static_cast<std::size_t>(std::min<std::uint64_t>(kImageBlock, header.data_bytes - block * kImageBlock));
}

// The first error of several threads.
class FirstError {
 public:
  void set(Error error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    failed_ = true;
  }
  bool failed() const { return failed_; }
  Result<void> outcome() const {
    if (error_) return *error_;
    return {};
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> failed_ = false;
  std::optional<Error> error_;
};

// False when the system has no thread to give.
template <typename Work>
bool start(std::vector<std::thread>& threads, Work work) {
  try {
    threads.emplace_back(std::move(work));
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

// What `make` returns; running out of memory inside it is an error like others, because no exception may leave a thread.
template <typename Make>
Result<void> within_memory(Make make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kNoMemory, "packing: no memory for a block of " + std::to_string(kImageBlock >> 20) + " MiB"};
  }
}

void join_all(std::vector<std::thread>& threads) {
  for (auto& thread : threads) thread.join();
}

// Workers make blocks first, first + 1, ... into a ring of slots; the owner takes them out in that order.
class BlockRing {
 public:
  BlockRing(const ImageSource& source, const ImageHeader& header)
      : source_(source), header_(header), next_(header.blocks_done), taken_(header.blocks_done) {}

  void work() {
    while (const auto block = claim()) {
      Slot& slot = slots_[*block % kSlots];
      auto made = within_memory([&]() -> Result<void> {
        slot.bytes.resize(block_bytes(header_, *block));
        return source_.fill(*block * kImageBlock, slot.bytes);
      });
      slot.sum = checksum(slot.bytes);
      const std::lock_guard lock(mutex_);
      if (!made.has_value()) slot.error = std::move(made).error();
      slot.full = true;
      changed_.notify_all();
    }
  }

  // Waits for the block, passes it on, frees its slot.
  Result<void> take(std::uint64_t block, const BlockWriter& write, std::uint64_t& sum) {
    Slot& slot = slots_[block % kSlots];
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return slot.full; });
    lock.unlock();
    if (slot.error) return *slot.error;
    sum = slot.sum;
    LILY_RETURN_IF_ERROR(write(block, slot.bytes));
    lock.lock();
    slot.full = false;
    taken_ = block + 1;
    changed_.notify_all();
    return {};
  }

  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

 private:
  struct Slot {
    std::vector<std::byte> bytes;
    std::uint64_t sum = 0;
    bool full = false;
    std::optional<Error> error;
  };

  // The next block, once its slot is free; nothing when all are claimed or the owner gave up.
  std::optional<std::uint64_t> claim() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || next_ < taken_ + kSlots; });
    if (stopped_ || next_ == header_.block_sums.size()) return std::nullopt;
    return next_++;
  }

  const ImageSource& source_;
  const ImageHeader& header_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Slot slots_[kSlots];
  std::uint64_t next_, taken_;
  bool stopped_ = false;
};

}  // namespace

Result<void> pack_into(const ImageSource& source, ImageHeader& header, std::span<std::byte> data,
                       const std::function<void(std::uint64_t)>& progress) {
  std::atomic<std::uint64_t> next = 0;
  FirstError error;
  const std::uint64_t blocks = header.block_sums.size();
  const auto work = [&](bool reports) {
    for (std::uint64_t block = next++; block < blocks && !error.failed(); block = next++) {
      const auto part = data.subspan(block * kImageBlock, block_bytes(header, block));
      auto made = within_memory([&] { return source.fill(block * kImageBlock, part); });
      if (!made.has_value()) return error.set(std::move(made).error());
      header.block_sums[block] = checksum(part);
      if (reports && progress) progress(std::min(header.data_bytes, (block + 1) * kImageBlock));
    }
  };
  std::vector<std::thread> helpers;
  const unsigned n = std::clamp(std::thread::hardware_concurrency(), 1u, kMaxMemoryThreads);
  for (unsigned i = 1; i < n && start(helpers, [&] { work(false); }); ++i) {
  }
  work(true);
  join_all(helpers);
  LILY_RETURN_IF_ERROR(error.outcome());
  header.blocks_done = blocks;
  return {};
}

Result<void> pack_in_order(const ImageSource& source, ImageHeader& header, const BlockWriter& write) {
  const ImageHeader plan = header;  // What the workers read while the caller's copy changes.
  BlockRing ring(source, plan);
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < kFileThreads && start(workers, [&] { ring.work(); }); ++i) {
  }
  if (workers.empty()) return Error{ErrorCode::kNoMemory, "packing: the system gives no thread"};
  Result<void> outcome;
  for (std::uint64_t block = plan.blocks_done; block < plan.block_sums.size() && outcome.has_value(); ++block) {
    outcome = ring.take(block, write, header.block_sums[block]);
    if (outcome.has_value()) header.blocks_done = block + 1;
  }
  ring.stop();
  join_all(workers);
  return outcome;
}

}  // namespace lily
