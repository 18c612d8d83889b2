// What a step tells of itself while a pass is recorded: its launches, and what memory each of them
// reads and writes. Whoever implements it decides what becomes of them: a program that is replayed
// (program.h), or a run at once in a test.
//
// Recorders of steps see addresses of the device and never look behind them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "backend/args.h"
#include "backend/gpu/kernel.h"
#include "backend/mechanisms.h"
#include "base/check.h"
#include "base/result.h"
#include "spec/layout.h"
#include "spec/model_spec.h"

namespace lily::gpu {

// Memory of the device that a launch reads or writes: all that it may touch for any PassControl. A
// range at address null is none, so an optional argument needs no branch.
struct Range {
  const void* address = nullptr;
  std::size_t bytes = 0;
  bool operator==(const Range&) const = default;
};
bool overlap(const Range& a, const Range& b);
// What a kernel reaches through pointers that it finds in device memory (SamplingControl). No other
// kernel of the pass may declare such memory, so nothing depends on it.
inline constexpr Range kIndirect{nullptr, SIZE_MAX};

template <typename T>
Range range(const T* address, std::size_t count) {
  return {address, count * sizeof(T)};
}
inline Range range(const PassControl* control) {
  return {control, sizeof(PassControl)};
}
// The parts of a matrix in WeightLayout::kRowMajor.
inline Range codes(const QuantMatrix& m) {
  return {m.codes, static_cast<std::size_t>(m.rows) * static_cast<std::size_t>(m.cols) *
                       static_cast<std::size_t>(m.bits) / 8};
}
inline Range scales(const QuantMatrix& m) {
  return range(m.scales,
               static_cast<std::size_t>(m.rows) * static_cast<std::size_t>(m.cols / kQuantGroup));
}
inline Range biases(const QuantMatrix& m) {
  return range(m.biases,
               static_cast<std::size_t>(m.rows) * static_cast<std::size_t>(m.cols / kQuantGroup));
}

struct Launch {
  const Kernel* kernel;
  std::vector<std::byte> args;
  Grid grid;  // Threadgroups.
  unsigned threads;
  std::vector<Range> reads, writes;
  std::string_view step = {};  // Whose launch it is, where the recorder knows; a literal.
};

class Device;
// What the host does in the middle of a pass: reads of the device what was recorded before, writes
// what comes after it needs. Run in every replay.
using HostStep = std::function<Result<void>(Device&)>;

// Bounds between one way and another; tests have small ones.
struct Tuning {
  int block_attention_from = 32768;  // Positions before the row's own.
};

class Recorder {
 public:
  virtual ~Recorder() = default;

  virtual const ModelSpec& spec() const = 0;
  virtual const Mechanisms& mechanisms() const = 0;
  virtual const Tuning& tuning() const = 0;
  // Rows of this pass at most; how many it has, PassControl::n_rows, is known on the device only.
  virtual int rows_bound() const = 0;
  // Positions of the longest context at most; 0: as many as there is room for.
  virtual int context_bound() const = 0;
  // Rows of any pass at most: what scratch is sized for.
  virtual int max_rows() const = 0;

  // Scratch of the backend: the same address for the same name in every pass. `name` is a string
  // literal, `bytes` is computed from spec() and max_rows() alone. What the names of a step need
  // together is its NAME_scratch_bytes of steps/steps.h.
  virtual void* scratch(const char* name, std::size_t bytes) = 0;
  template <typename T>
  T* scratch_of(const char* name, std::size_t count) {
    return static_cast<T*>(scratch(name, count * sizeof(T)));
  }

  // After all launches before it are done, before any behind it starts.
  virtual void host_step(HostStep step) = 0;

  // Whether `what`, which is made from memory `from` alone, has to be made: true at first and after
  // a launch that writes it.
  bool derive(std::string_view what, Range from) {
    const auto known = derived_.find(what);
    if (known != derived_.end() && known->second == from) return false;
    derived_[what] = from;
    return true;
  }

  // From an address to the end of the buffer that holds it: pages and slots, whose number the
  // arguments do not tell.
  virtual Range to_end_of_buffer(const void* address) const = 0;

  // A launch after those before it. Launches are ordered where the later one reads or writes what
  // the earlier wrote, or writes what it read; others may run at the same time.
  template <typename Params>
  void launch(const Kernel& kernel, const Params& params, Grid grid, unsigned threads,
              std::initializer_list<Range> reads, std::initializer_list<Range> writes) {
    static_assert(std::is_trivially_copyable_v<Params>);
    LILY_CHECK(kernel.args_bytes == sizeof(Params));
    LILY_CHECK(threads >= kSimdLanes && threads % kSimdLanes == 0 && threads <= kernel.max_threads);
    LILY_CHECK(grid.x > 0 && grid.y > 0 && grid.z > 0);
    const auto bytes = std::as_bytes(std::span(&params, 1));
    add({&kernel, {bytes.begin(), bytes.end()}, grid, threads, reads, writes});
  }
  template <typename Params>
  void launch(std::string_view kernel, const Params& params, Grid grid, unsigned threads,
              std::initializer_list<Range> reads, std::initializer_list<Range> writes) {
    const Kernel* found = find_kernel(kernel);
    LILY_CHECK(found != nullptr);
    launch(*found, params, grid, threads, reads, writes);
  }

 protected:
  virtual void add(Launch launch) = 0;
  // For add(): what is made from memory that changes is no longer made.
  void forget_derived(std::span<const Range> written) {
    std::erase_if(derived_, [&](const auto& d) {
      return std::any_of(written.begin(), written.end(),
                         [&](const Range& w) { return overlap(d.second, w); });
    });
  }

 private:
  std::map<std::string_view, Range> derived_;  // Names are literals.
};

}  // namespace lily::gpu
