// Dependencies between launches, from what they declared.
#include "backend/gpu/program.h"

#include <algorithm>

namespace lily::gpu {

bool overlap(const Range& a, const Range& b) {
  if (a.address == nullptr || b.address == nullptr) return false;
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.address),
             b_begin = reinterpret_cast<std::uintptr_t>(b.address);
  return a_begin < b_begin + b.bytes && b_begin < a_begin + a.bytes;
}

namespace {

bool any_overlap(std::span<const Range> a, std::span<const Range> b) {
  return std::any_of(a.begin(), a.end(), [&](const Range& left) {
    return std::any_of(b.begin(), b.end(),
                       [&](const Range& right) { return overlap(left, right); });
  });
}

}  // namespace

bool conflict(const Launch& earlier, const Launch& later) {
  return any_overlap(later.reads, earlier.writes) || any_overlap(later.writes, earlier.reads) ||
         any_overlap(later.writes, earlier.writes);
}

void Program::add(Launch launch) {
  const auto stage = launches().subspan(stage_start_);
  const bool barrier = std::any_of(stage.begin(), stage.end(), [&](const Launch& l) {
    return placing_ == Barriers::kEverywhere || conflict(l, launch);
  });
  if (barrier) {
    stage_start_ = launches_.size();
    ++barriers_;
  }
  barrier_before_.push_back(barrier);
  launches_.push_back(std::move(launch));
}

bool Program::reads(const Range& memory) const {
  return std::any_of(launches_.begin(), launches_.end(), [&](const Launch& l) {
    return any_overlap(l.reads, {&memory, 1});
  });
}

bool Program::writes(const Range& memory) const {
  return std::any_of(launches_.begin(), launches_.end(), [&](const Launch& l) {
    return any_overlap(l.writes, {&memory, 1});
  });
}

}  // namespace lily::gpu
