// Fibers, turns and meetings of one threadgroup: see group_runner.h.
#include "backend/gpu/emulator/group_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backend/gpu/emulator/tsan.h"
#include "base/check.h"

namespace lily::gpu {
namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10;  // Untouched pages cost nothing.
// ThreadSanitizer holds about 8,000 fibers, makes a few thousand a second and takes 1 to 2 MB for
// each, so lanes take turns on a pool of them. A fiber used again orders its old lane before its new
// one: that can hide a race between groups far apart, never invent one.
constexpr std::size_t kTsanFibers = 2000;

thread_local GroupRunner* running = nullptr;

bool same_place(const Site& a, const Site& b) {
  return a.line == b.line && std::strcmp(a.what, b.what) == 0 && std::strcmp(a.file, b.file) == 0;
}

std::string text_of(const Site& site) {
  const char* slash = std::strrchr(site.file, '/');
  return fmt::format("{} at {}:{}", site.what, slash == nullptr ? site.file : slash + 1, site.line);
}

}  // namespace

void meet_lanes(void* brought, Combine combine, const Site& site) {
  running->meet_lanes(brought, combine, false, site);
}
void meet_lanes_in_order(const Site& site) {
  running->meet_lanes(nullptr, nullptr, true, site);
}
void meet_group(const Site& site) {
  running->meet_group(site);
}
std::uint32_t current_lane() {
  return running->thread() % kSimdLanes;
}

GroupRunner::GroupRunner() = default;

GroupRunner::~GroupRunner() {
  for (auto& fiber : fibers_) {
    if (fiber->tsan != nullptr) tsan::destroy(fiber->tsan);
    abandon_fiber(*fiber);  // Whoever maps these addresses next finds no frames of ours.
    unmap_stack(fiber->stack, kStackBytes);
  }
}

GroupRunner* GroupRunner::current() {
  return running;
}

// ---- one group

bool GroupRunner::run(const GroupJob& job, const std::uint32_t (&group)[3],
                      const std::vector<std::uint16_t>& order) {
  start_group(job, group, order);
  running = this;
  current_ = order_[0];
  resume(current_, main_);
  running = nullptr;
  if (error_.empty()) return true;
  error_ = fmt::format("kernel '{}', group {},{},{}: {}", job.kernel->name, group[0], group[1],
                       group[2], error_);
  give_up_fibers();
  return false;
}

void GroupRunner::start_group(const GroupJob& job, const std::uint32_t (&group)[3],
                              const std::vector<std::uint16_t>& order) {
  job_ = &job;
  std::copy_n(group, 3, group_);
  std::string().swap(error_);  // fail() must not hand a buffer back to a frame that is given up.
  done_ = at_barrier_ = 0;
  order_ = order;
  position_.resize(order_.size());
  for (std::size_t i = 0; i < order_.size(); ++i)
    position_[order_[i]] = static_cast<std::uint16_t>(i);
  lanes_.assign(job.threads, Lane{});
  std::fill(std::begin(ready_), std::end(ready_), 0);
  for (std::uint32_t i = 0; i < job.threads; i += 64)
    ready_[i / 64] = job.threads - i >= 64 ? ~0ull : 0xffffffffull;
  for (std::uint32_t s = 0; s < job.threads / kSimdLanes; ++s) simds_[s].come = 0;
  make_shared();
  if constexpr (tsan::kOn) {
    main_tsan_ = tsan::current();
    for (Lane& lane : lanes_) {
      if (fibers_.size() < kTsanFibers) make_fiber();
      lane.fiber = fibers_[next_fiber_++ % fibers_.size()].get();
    }
    tsan::release(job.epoch_begin);
  }
}

void GroupRunner::make_shared() {
  const std::size_t sync_bytes = tsan::kOn ? 16 * (1 + kMaxGroupThreads / kSimdLanes) : 0;
  const std::size_t bytes = (job_->kernel->shared_bytes + 7) / 8 * 8;
  shared_ = memory_.take((tsan::kOn ? bytes : job_->kernel->shared_bytes) + sync_bytes);
  sync_ = shared_ + bytes;
  std::memset(shared_, 0xff, job_->kernel->shared_bytes);  // NaN in every format
}

// ---- turns

int GroupRunner::next_ready() const {
  const std::uint32_t words = (job_->threads + 63) / 64, from = position_[current_] + 1u;
  for (std::uint32_t i = 0, w = from / 64 % words; i <= words; ++i, w = (w + 1) % words) {
    std::uint64_t bits = ready_[w];
    if (i == 0 && from / 64 < words) bits &= ~0ull << (from % 64);
    if (bits != 0) return static_cast<int>(w * 64) + __builtin_ctzll(bits);
  }
  return -1;
}

void GroupRunner::set_ready(std::uint32_t lane) {
  lanes_[lane].waits = false;
  ready_[position_[lane] / 64] |= 1ull << (position_[lane] % 64);
}

void GroupRunner::resume(std::uint32_t lane, Fiber& from) {
  current_ = lane;
  Lane& to = lanes_[lane];
  if (to.fiber == nullptr) to.fiber = take_fiber();
  if constexpr (tsan::kOn) tsan::switch_to(to.fiber->tsan);
  switch_fiber(from, *to.fiber);
}

void GroupRunner::wait(const Site& site) {
  Lane& me = lanes_[current_];
  me.waits = true;
  me.site = site;
  ready_[position_[current_] / 64] &= ~(1ull << (position_[current_] % 64));
  const int next = next_ready();
  if (next < 0) fail(describe_standstill());
  resume(order_[static_cast<std::size_t>(next)], *me.fiber);
}

void GroupRunner::entry() {
  fiber_started();
  running->work();
}

void GroupRunner::work() {
  for (;;) {
    run_lane();
    Fiber& me = *lanes_[current_].fiber;
    lanes_[current_].done = true;
    ready_[position_[current_] / 64] &= ~(1ull << (position_[current_] % 64));
    if (++done_ == job_->threads) {
      if (!tsan::kOn) free_fibers_.push_back(&me);
      leave(me);
      continue;  // A later group's first lane.
    }
    const int next = next_ready();
    if (next < 0) fail(describe_standstill());
    const std::uint32_t lane = order_[static_cast<std::size_t>(next)];
    if (lanes_[lane].fiber == nullptr) {
      lanes_[lane].fiber = &me;
      current_ = lane;
      continue;
    }
    if (!tsan::kOn) free_fibers_.push_back(&me);
    resume(lane, me);
  }
}

void GroupRunner::run_lane() {
  tsan::acquire(job_->epoch_begin);
  LaneIds ids = {{group_[0], group_[1], group_[2]},
                 {job_->groups.x, job_->groups.y, job_->groups.z},
                 job_->threads,
                 static_cast<std::uint16_t>(current_),
                 static_cast<std::uint16_t>(current_ % kSimdLanes),
                 static_cast<std::uint16_t>(current_ / kSimdLanes)};
  job_->run(job_->args, shared_, ids);
  tsan::release(job_->epoch_end);
}

void GroupRunner::leave(Fiber& from) {
  if constexpr (tsan::kOn) tsan::switch_to(main_tsan_);
  switch_fiber(from, main_);
}

Fiber* GroupRunner::make_fiber() {
  auto fiber = std::make_unique<Fiber>();
  char* stack = map_stack(kStackBytes);
  LILY_CHECK(stack != nullptr);
  prepare_fiber(*fiber, stack, kStackBytes, entry);
  fiber->tsan = tsan::create();
  fibers_.push_back(std::move(fiber));
  return fibers_.back().get();
}

Fiber* GroupRunner::take_fiber() {
  if (free_fibers_.empty()) return make_fiber();
  Fiber* fiber = free_fibers_.back();
  free_fibers_.pop_back();
  return fiber;
}

void GroupRunner::give_up_fibers() {
  free_fibers_.clear();
  for (auto& fiber : fibers_) {
    abandon_fiber(*fiber);
    prepare_fiber(*fiber, fiber->stack, kStackBytes, entry);
    if constexpr (tsan::kOn) {  // Its record of calls ends in the middle.
      tsan::destroy(fiber->tsan);
      fiber->tsan = tsan::create();
    } else {
      free_fibers_.push_back(fiber.get());
    }
  }
}

// ---- meetings

void GroupRunner::meet_lanes(void* brought, Combine combine, bool ordered, const Site& site) {
  const std::uint32_t base = current_ / kSimdLanes * kSimdLanes;
  Simd& simd = simds_[current_ / kSimdLanes];
  unsigned char* sync = sync_ + 16 * (1 + current_ / kSimdLanes) + 8 * (simd.turn % 2);
  if (ordered) tsan::release(sync);
  lanes_[current_].site = site;
  if (simd.come == 0) {
    simd.first = current_;
  } else if (!same_place(lanes_[simd.first].site, site)) {
    fail(describe("lanes of a simdgroup meet at different places", simd.first));
  }
  simd.brought[current_ - base] = brought;
  if (++simd.come < kSimdLanes) {
    wait(site);
  } else {
    if (combine != nullptr) combine(simd.brought);
    simd.come = 0;
    simd.turn++;
    for (std::uint32_t lane = base; lane < base + kSimdLanes; ++lane) set_ready(lane);
  }
  if (ordered) tsan::acquire(sync);
}

void GroupRunner::meet_group(const Site& site) {
  unsigned char* sync = sync_ + 8 * (barrier_turn_ % 2);
  tsan::release(sync);
  lanes_[current_].site = site;
  if (at_barrier_ == 0) {
    barrier_first_ = current_;
  } else if (!same_place(lanes_[barrier_first_].site, site)) {
    fail(describe("threads of a group meet at different barriers", barrier_first_));
  }
  if (++at_barrier_ < job_->threads) {
    wait(site);
  } else {
    at_barrier_ = 0;
    barrier_turn_++;
    for (std::uint32_t lane = 0; lane < job_->threads; ++lane) set_ready(lane);
  }
  tsan::acquire(sync);
}

// ---- faults

std::string GroupRunner::place(std::uint32_t lane) const {
  return lanes_[lane].done ? fmt::format("thread {} returned", lane)
                           : fmt::format("thread {} is in {}", lane, text_of(lanes_[lane].site));
}

std::string GroupRunner::describe(const char* what, std::uint32_t other) const {
  return fmt::format("{}: {}, {}", what, place(other), place(current_));
}

// Nobody can go on: names one who waits and one for whom it waits in vain, of its simdgroup if it
// meets lanes.
std::string GroupRunner::describe_standstill() const {
  for (std::uint32_t lane = 0; lane < job_->threads; ++lane) {
    if (lanes_[lane].done) continue;
    const bool meets_lanes = simds_[lane / kSimdLanes].come > 0 &&
                             std::strstr(lanes_[lane].site.what, "group") == nullptr;
    const std::uint32_t first = meets_lanes ? lane / kSimdLanes * kSimdLanes : 0;
    const std::uint32_t end = meets_lanes ? first + kSimdLanes : job_->threads;
    for (std::uint32_t other = first; other < end; ++other) {
      if (lanes_[other].done || !same_place(lanes_[other].site, lanes_[lane].site)) {
        return fmt::format("no thread can go on: {}, {}", place(lane), place(other));
      }
    }
  }
  return "no thread can go on";
}

// Frames of the failing lane are given up as they are, so the text is moved out of them.
void GroupRunner::fail(std::string&& what) {
  error_ = std::move(what);
  leave(*lanes_[current_].fiber);
  check_failed("a lane that failed goes on", __FILE__, __LINE__);
}

bool GroupRunner::is_stack(const void* address) const {
  const Fiber& fiber = *lanes_[current_].fiber;
  const char* p = static_cast<const char*>(address);
  return p >= fiber.stack && p < fiber.stack + kStackBytes;
}

std::int64_t GroupRunner::shared_offset(const void* address) const {
  const std::int64_t offset = static_cast<const unsigned char*>(address) - shared_;
  return offset >= 0 && offset < static_cast<std::int64_t>(job_->kernel->shared_bytes) ? offset
                                                                                       : -1;
}

}  // namespace lily::gpu
