// Dispatches: groups dealt to workers in the order asked for, with or without the observer. See
// emulator.h.
#include "backend/gpu/emulator/emulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <numeric>

#include "backend/gpu/emulator/group_runner.h"
#include "backend/gpu/emulator/observer.h"
#include "backend/gpu/emulator/tsan.h"
#include "backend/gpu/emulator/worker_team.h"
#include "base/check.h"
#include "base/cores.h"

namespace lily::gpu {
namespace {

// SplitMix64: good enough to shuffle with, and the same everywhere.
std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

template <class T>
std::vector<T> turns(std::size_t n, LaneOrder order, std::uint64_t seed) {
  std::vector<T> list(n);
  std::iota(list.begin(), list.end(), T{0});
  if (order == LaneOrder::kReverse) std::reverse(list.begin(), list.end());
  if (order == LaneOrder::kShuffled) {
    for (std::size_t i = n; i > 1; --i) std::swap(list[i - 1], list[next_random(seed) % i]);
  }
  return list;
}

// The plain build of the kernels uses instructions that x86 processors have since 2013.
bool runs_plain_kernels() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

}  // namespace

struct Emulator::State {
  explicit State(const EmulatorOptions& o, int workers)
      : options(o), team(workers), runners(static_cast<std::size_t>(workers)) {}
  void run_groups(int worker, const GroupJob& job, const std::vector<std::uint16_t>& lanes,
                  const std::vector<std::uint32_t>& groups);

  EmulatorOptions options;
  WorkerTeam team;
  std::vector<GroupRunner> runners;  // one a worker
  PrivateMemory args;
  Observer observer;
  std::uint64_t n_dispatches = 0;
  std::atomic<std::uint64_t> next_group{0};
  std::mutex error_mutex;
  std::string error;
  char epoch_begin = 0, epoch_end = 0;
};

Emulator::Emulator(std::unique_ptr<State> state) : state_(std::move(state)) {}

Emulator::~Emulator() {
  if (state_->options.observe) set_observer(nullptr);
}

Result<std::unique_ptr<Emulator>> Emulator::create(const EmulatorOptions& options) {
  if (options.observe && tsan::kOn) {
    return Error{
        ErrorCode::kUnsupported,
        "emulator: observing and ThreadSanitizer are two builds; this one has ThreadSanitizer"};
  }
  if (!options.observe && !runs_plain_kernels()) {
    return Error{
        ErrorCode::kUnsupported,
        "emulator: this processor has no AVX2 and FMA, which its kernels are compiled for"};
  }
  const bool alone = options.observe || tsan::kOn;
  const int workers = alone ? 1 : options.workers > 0 ? options.workers : usable_cores();
  return std::unique_ptr<Emulator>(new Emulator(std::make_unique<State>(options, workers)));
}

void Emulator::add_memory(const void* address, std::size_t bytes, std::string name) {
  if (state_->options.observe)
    state_->observer.add_memory(reinterpret_cast<std::uintptr_t>(address), bytes, std::move(name));
}

void Emulator::remove_memory(const void* address) {
  if (state_->options.observe)
    state_->observer.remove_memory(reinterpret_cast<std::uintptr_t>(address));
}

void Emulator::State::run_groups(int worker, const GroupJob& job,
                                 const std::vector<std::uint16_t>& lanes,
                                 const std::vector<std::uint32_t>& groups) {
  GroupRunner& runner = runners[static_cast<std::size_t>(worker)];
  const std::uint64_t n = std::uint64_t{job.groups.x} * job.groups.y * job.groups.z;
  for (;;) {
    const std::uint64_t turn = next_group.fetch_add(1, std::memory_order_relaxed);
    if (turn >= n) return;
    const std::uint32_t g = groups.empty() ? static_cast<std::uint32_t>(turn) : groups[turn];
    const std::uint32_t at[3] = {g % job.groups.x, g / job.groups.x % job.groups.y,
                                 g / job.groups.x / job.groups.y};
    if (options.observe) observer.begin_group();
    const bool ok = runner.run(job, at, lanes);
    if (options.observe) observer.end_group();
    if (!ok) {
      const std::lock_guard lock(error_mutex);
      if (error.empty()) error = runner.error();
      next_group.store(n, std::memory_order_relaxed);
    }
  }
}

Result<void> Emulator::dispatch(const Dispatch& d) {
  State& s = *state_;
  const Kernel& kernel = *d.kernel;
  const std::uint64_t n_groups = std::uint64_t{d.groups.x} * d.groups.y * d.groups.z;
  if (d.args.size() != kernel.args_bytes || d.threads == 0 || d.threads % kSimdLanes != 0 ||
      d.threads > kernel.max_threads || n_groups > 0xffffffffull) {
    return Error{ErrorCode::kDevice,
                 fmt::format("kernel '{}': {} bytes of arguments and {} threads in {} groups; "
                             "expected {} bytes and a multiple of {} up to {}",
                             kernel.name, d.args.size(), d.threads, n_groups, kernel.args_bytes,
                             kSimdLanes, kernel.max_threads)};
  }
  unsigned char* args = s.args.take(d.args.size());
  std::memcpy(args, d.args.data(), d.args.size());
  const LaneFunction function = s.options.observe ? kernel.run_observed : kernel.run;
  LILY_CHECK(function != nullptr);
  const GroupJob job = {&kernel, function, args, d.groups, d.threads, &s.epoch_begin, &s.epoch_end};
  const std::uint64_t seed = s.options.seed + ++s.n_dispatches;
  const auto lanes = turns<std::uint16_t>(d.threads, s.options.order, seed);
  std::vector<std::uint32_t> groups;
  if (s.options.order != LaneOrder::kForward)
    groups = turns<std::uint32_t>(n_groups, s.options.order, seed);
  s.next_group = 0;
  s.error.clear();
  if (s.options.observe) {
    set_observer(&s.observer);
    s.observer.begin_dispatch(d, args);
  }
  if (n_groups > 1) {
    s.team.run([&](int worker) { s.run_groups(worker, job, lanes, groups); });
  } else {
    s.run_groups(0, job, lanes, groups);
  }
  if (s.options.observe) s.observer.end_dispatch();
  if (!s.error.empty()) return Error{ErrorCode::kDevice, s.error};
  return {};
}

void Emulator::barrier() {
  tsan::acquire(&state_->epoch_end);
  tsan::release(&state_->epoch_begin);
  state_->observer.barrier();
}

const std::vector<DispatchRecord>& Emulator::records() const {
  return state_->observer.records;
}
const std::vector<Hazard>& Emulator::hazards() const {
  return state_->observer.hazards;
}
void Emulator::clear_records() {
  state_->observer.clear();
}

}  // namespace lily::gpu
