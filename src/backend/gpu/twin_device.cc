// Launch by launch on two devices, and what differs.
#include "backend/gpu/twin_device.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <mutex>
#include <set>
#include <utility>

#include "base/check.h"

namespace lily::gpu {
namespace {

constexpr std::size_t kSamples = 8;
// Memory behind pointers that lie in memory: settings of requests and lists of the vocabulary.
constexpr std::size_t kIndirectBytes = 8u << 20;

class TwinRecording final : public Device::Recording {
 public:
  explicit TwinRecording(const Program& program) : program_(program) {}
  const Program& program() const { return program_; }

 private:
  Program program_;
};

// A word that could be a float's: small integers and zero look like numbers below the smallest.
bool is_float(std::uint32_t word) {
  const float value = std::fabs(std::bit_cast<float>(word));
  return value >= 1e-30f && value <= 1e30f;
}

double bf16_value(std::uint32_t half) {
  return std::bit_cast<float>(half << 16);
}

// Kernels whose outputs in scratch are bf16.
bool writes_bf16(std::string_view kernel) {
  return kernel == "dequantise" || kernel.starts_with("experts_tile_down");
}

// Differences of numbers, in units of the largest.
class Spread {
 public:
  void add(double expected, double found) {
    largest_ = std::max(largest_, std::fabs(expected));
    worst_ = std::max(worst_, std::fabs(expected - found));
  }
  double share() const { return worst_ == 0 ? 0 : worst_ / std::max(largest_, 1e-30); }

 private:
  double largest_ = 0, worst_ = 0;
};

bool is_indirect(const Range& range) {
  return range.address == nullptr && range.bytes == kIndirect.bytes;
}

std::vector<std::uint32_t> words_of(std::span<const std::byte> bytes) {
  std::vector<std::uint32_t> words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), words.size() * 4);
  return words;
}

// Places of a few words that the launch changed, evenly spaced among those.
std::vector<std::size_t> sample_places(const std::vector<std::uint32_t>& before,
                                       const std::vector<std::uint32_t>& words) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] != before[i]) places.push_back(i);
  std::vector<std::size_t> picked;
  for (std::size_t i = 0; i < std::min(kSamples, places.size()); ++i)
    picked.push_back(places[i * places.size() / std::min(kSamples, places.size())]);
  return picked;
}

}  // namespace

void compare_words(std::span<const std::uint32_t> expected, std::span<const std::uint32_t> found,
                   bool bf16, KernelComparison& to) {
  LILY_CHECK(expected.size() == found.size());
  Spread spread;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::uint32_t e = expected[i], f = found[i];
    if (bf16) {
      spread.add(bf16_value(e & 0xffff), bf16_value(f & 0xffff));
      spread.add(bf16_value(e >> 16), bf16_value(f >> 16));
    } else if (is_float(e) || is_float(f)) {
      if (std::isfinite(std::bit_cast<float>(e)) && std::isfinite(std::bit_cast<float>(f))) {
        spread.add(std::bit_cast<float>(e), std::bit_cast<float>(f));
      } else {
        ++to.n_different;
      }
    } else if (e != f) {
      ++to.n_different;
    }
  }
  to.n_words += expected.size();
  to.worst = std::max(to.worst, spread.share());
}

// The buffers of both devices, by the emulator's addresses.
class TwinDevice::Memory {
 public:
  struct Pair {
    Buffer judge, other;
    bool adopted, bf16;  // bf16: all of it.
  };

  Buffer keep(Pair pair, const std::shared_ptr<Memory>& self) {
    void* const address = pair.judge.address();
    const std::size_t bytes = pair.judge.bytes();
    const std::lock_guard lock(mutex_);
    pairs_.emplace(number(address), std::move(pair));
    const auto forget = [self](void* at) { self->forget(at); };
    return Buffer(address, bytes, std::shared_ptr<void>(address, forget));
  }
  // The pair that holds an address; null where none does.
  const Pair* find(std::uintptr_t address) const {
    const std::lock_guard lock(mutex_);
    const auto next = pairs_.upper_bound(address);
    if (next == pairs_.begin()) return nullptr;
    const auto& [begin, pair] = *std::prev(next);
    return address < begin + pair.judge.bytes() ? &pair : nullptr;
  }
  // The other device's address of the same place; 0 where it is none of ours.
  std::uintptr_t translate(std::uintptr_t address) const {
    const Pair* pair = find(address);
    if (pair == nullptr) return 0;
    return number(pair->other.address()) + (address - number(pair->judge.address()));
  }
  std::vector<Range> small() const {
    const std::lock_guard lock(mutex_);
    std::vector<Range> ranges;
    for (const auto& [address, pair] : pairs_) {
      if (!pair.adopted && pair.judge.bytes() <= kIndirectBytes && pair.judge.bytes() > 0)
        ranges.push_back({pair.judge.address(), pair.judge.bytes()});
    }
    return ranges;
  }

 private:
  void forget(void* address) {
    std::map<std::uintptr_t, Pair>::node_type gone;
    const std::lock_guard lock(mutex_);
    gone = pairs_.extract(number(address));
  }

  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Pair> pairs_;
};

TwinDevice::TwinDevice(std::unique_ptr<EmulatorDevice> judge, std::unique_ptr<Device> other,
                       Comparisons& comparisons)
    : judge_(std::move(judge)),
      other_(std::move(other)),
      comparisons_(comparisons),
      memory_(std::make_shared<Memory>()) {}

TwinDevice::~TwinDevice() = default;

Result<Buffer> TwinDevice::allocate(std::size_t bytes, std::string_view what) {
  LILY_TRY(auto judge, judge_->allocate(bytes, what));
  LILY_TRY(auto other, other_->allocate(bytes, what));
  return memory_->keep({std::move(judge), std::move(other), false, what == "KV cache"}, memory_);
}

Result<Buffer> TwinDevice::adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner) {
  LILY_TRY(auto judge, judge_->adopt(bytes, owner));
  LILY_TRY(auto other, other_->adopt(bytes, owner));
  return memory_->keep({std::move(judge), std::move(other), true, false}, memory_);
}

Result<std::shared_ptr<Device::Recording>> TwinDevice::build(const Program& program) {
  return std::make_shared<TwinRecording>(program);
}

void TwinDevice::submit(std::shared_ptr<Recording> recording, Ticket ticket) {
  for (const Launch& launch : static_cast<const TwinRecording&>(*recording).program().launches()) {
    if (auto done = run(launch); !done) {
      failures_.emplace(ticket, with_context(launch.kernel->name, std::move(done).error()));
      return;
    }
  }
}

Result<void> TwinDevice::wait(Ticket ticket) {
  const auto behind = failures_.upper_bound(ticket);
  if (behind == failures_.begin()) return {};
  Error first = std::move(failures_.begin()->second);
  failures_.erase(failures_.begin(), behind);
  return first;
}

// Copies to the other device what the launch may touch, with its addresses in place of the
// emulator's where memory holds pointers.
Result<void> TwinDevice::give(const Launch& launch) {
  std::vector<Range> ranges;
  std::copy(launch.reads.begin(), launch.reads.end(), std::back_inserter(ranges));
  std::copy(launch.writes.begin(), launch.writes.end(), std::back_inserter(ranges));
  const bool indirect = std::any_of(ranges.begin(), ranges.end(),
                                    [](const Range& range) { return is_indirect(range); });
  if (indirect) {
    for (const Range& small : memory_->small()) ranges.push_back(small);
  }
  for (const Range& range : ranges) {
    if (range.address == nullptr || range.bytes == 0) continue;
    const auto* pair = memory_->find(number(range.address));
    LILY_CHECK(pair != nullptr);
    if (pair->adopted) continue;
    std::vector<std::byte> bytes(range.bytes);
    LILY_RETURN_IF_ERROR(judge_->read(range.address, bytes));
    for (std::size_t at = 0; indirect && at + 8 <= bytes.size(); at += 8) {
      std::uintptr_t word = 0;
      std::memcpy(&word, &bytes[at], sizeof word);
      if (const auto there = memory_->translate(word); there != 0)
        std::memcpy(&bytes[at], &there, sizeof there);
    }
    other_->write(reinterpret_cast<void*>(memory_->translate(number(range.address))), bytes);
  }
  return {};
}

Result<void> TwinDevice::run_on(Device& device, Launch launch) {
  // One launch, as it is: kernels of a device's own may do the work of several.
  Program program(Barriers::kWhereNeeded, false);
  program.add(std::move(launch));
  LILY_TRY(auto recording, device.build(program));
  device.submit(std::move(recording), launches_);
  return device.wait(launches_);
}

// What is compared was written by one launch each, from the same bytes. Pointers are no results: a
// launch that writes through pointers in memory declares what it reports.
Result<void> TwinDevice::compare(const Launch& launch,
                                 const std::vector<std::vector<std::byte>>& before) {
  KernelComparison& to = comparisons_[launch.kernel->name];
  for (std::size_t i = 0; i < launch.writes.size(); ++i) {
    const Range& range = launch.writes[i];
    if (range.address == nullptr || range.bytes == 0) continue;
    std::vector<std::byte> expected(range.bytes), found(range.bytes);
    LILY_RETURN_IF_ERROR(judge_->read(range.address, expected));
    const auto there = memory_->translate(number(range.address));
    LILY_RETURN_IF_ERROR(other_->read(reinterpret_cast<void*>(there), found));
    const auto expected_words = words_of(expected), found_words = words_of(found);
    const bool bf16 =
        memory_->find(number(range.address))->bf16 || writes_bf16(launch.kernel->name);
    compare_words(expected_words, found_words, bf16, to);
    if (to.n_launches > 0 || !to.expected.empty()) continue;
    to.samples_are_bf16 = bf16;
    for (const std::size_t place : sample_places(words_of(before[i]), expected_words)) {
      to.expected.push_back(expected_words[place]);
      to.found.push_back(found_words[place]);
    }
  }
  ++to.n_launches;
  return {};
}

Result<void> TwinDevice::run(const Launch& launch) {
  ++launches_;
  LILY_RETURN_IF_ERROR(give(launch));
  std::vector<std::vector<std::byte>> before;
  for (const Range& range : launch.writes) {
    before.emplace_back(range.address == nullptr ? 0 : range.bytes);
    if (range.address != nullptr) LILY_RETURN_IF_ERROR(judge_->read(range.address, before.back()));
  }
  LILY_RETURN_IF_ERROR(run_on(*judge_, launch));
  Launch there = launch;
  for (std::size_t at = 0; at + 8 <= there.args.size(); at += 8) {
    std::uintptr_t word = 0;
    std::memcpy(&word, &there.args[at], sizeof word);
    if (const auto moved = memory_->translate(word); moved != 0)
      std::memcpy(&there.args[at], &moved, sizeof moved);
  }
  for (auto* ranges : {&there.reads, &there.writes}) {
    for (Range& range : *ranges) {
      if (range.address != nullptr)
        range.address = reinterpret_cast<void*>(memory_->translate(number(range.address)));
    }
  }
  LILY_RETURN_IF_ERROR(run_on(*other_, std::move(there)));
  return compare(launch, before);
}

}  // namespace lily::gpu
