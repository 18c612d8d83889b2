// The contract between the model and a device: the steps of this family, memory, and a way to run a pass.
//
// Steps return nothing and read no results: they enqueue, in order. submit() hands over what was enqueued and gives a
// ticket; wait() returns when its results lie in the buffers that the arguments named. A backend may run a step at once (CPU) or
// record it and replay the recording on later passes of the same key (GPU): begin() says whether the steps have to be named again.
//
// A row's numbers never depend on what else is in the pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/args.h"
#include "backend/mechanisms.h"
#include "base/result.h"
#include "spec/layout.h"
#include "spec/model_spec.h"

namespace lily {

enum class Activations { kInt8, kF32 };  // What 4-bit weights are multiplied with.

struct BackendOptions {
  int threads = 0;                              // 0: one per physical core that this process may use
  std::string isa;                              // "" picks the best: "avx2", "portable", ...
  Activations activations = Activations::kInt8; // kF32 is the exact path of the CPU backend
  std::optional<Mechanisms> mechanisms = {};    // Of a GPU; none: default_mechanisms()
  // Told while the first buffer that is adopted is copied to a device with memory of its own.
  std::function<void(std::uint64_t done, std::uint64_t total)> on_upload = {};
};

// Of the [kKvPageTokens, 256] keys of a page and KV head.
enum class KeyLayout {
  kRows,           // As values
  kInterleaved16,  // [4, 128, 16, 2]: two neighbouring dims of sixteen positions side by side
};

// Where a page's key number `row` keeps its dim `dim`.
constexpr std::int64_t key_offset(KeyLayout layout, std::int64_t row, std::int64_t dim) {
  if (layout == KeyLayout::kRows) return row * kHeadDim + dim;
  return row / 16 * 16 * kHeadDim + dim / 2 * 32 + row % 16 * 2 + dim % 2;
}

struct BackendInfo {
  std::string name;         // As open_backend() takes it.
  std::string description;  // "AVX2, 2 threads, int8 activations"
  WeightLayout layout;      // What the weight image must be packed as.
  int kv_element_bytes;     // 2: bf16, 4: f32
  KeyLayout key_layout = KeyLayout::kRows;
  std::uint64_t memory_bytes = 0;  // What the device lets a program use; 0: the machine's memory.
  double clock_hz = 0, memory_clock_hz = 0;  // Of the device's own, at most, as its driver says; 0: it does not.
  // Rows of a pass up to which each has the bits that it has alone in a pass of one: answers side by side are no more than these.
  int few_rows = kMaxSegments;
  // submit() returns before the pass is done, so a pass can be enqueued behind another whose token it takes. False: a pass is
  // computed while its steps are named.
  bool runs_ahead = false;
};

// Memory of a device. Zeroed, aligned to 64 bytes, committed on first touch where the system allows it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* address, std::size_t bytes, std::shared_ptr<void> owner)
      : address_(address), bytes_(bytes), owner_(std::move(owner)) {}
  void* address() const { return address_; }
  std::size_t bytes() const { return bytes_; }
  template <typename T>
  T* as(std::size_t byte_offset = 0) const {
    return reinterpret_cast<T*>(static_cast<unsigned char*>(address_) + byte_offset);
  }

 private:
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
  std::shared_ptr<void> owner_;
};

// Passes with the same key name the same steps with the same arguments; only PassControl's contents differ.
struct PassKey {
  int rows_bound = 0;       // Rows that the recording must hold; the pass has at most as many.
  int context_bound = 0;    // Positions that no row's context goes beyond; 0: all that there is room for.
  int control_block = 0;    // Which PassControl the steps read.
  int head_blocks = 0;
  bool score = false;       // score steps, choose otherwise
  int n_top = 0;            // Alternatives that score reports.
  const float* reference_log_probs = nullptr;
  const std::int32_t* next_tokens = nullptr;  // Where choose writes tokens for the next pass.
  int copy_from = -1, copy_to = -1;           // Slots, in a pass that only copies a state.
  int piece = 0;                              // Of a pass that is handed over in pieces, from 1 on; 0: all of it.
  bool operator==(const PassKey&) const = default;
};

using Ticket = std::uint64_t;

// A piece of a pass as a device runs it, and how long it takes alone.
struct PieceTime {
  struct Work {
    std::string step;    // Of those below: "gdn_project"
    std::string kernel;  // That does it where no device has a better one; empty: the step is one piece
  };
  std::string kernel;      // What runs, as the device names it.
  std::vector<Work> work;  // What it does; nothing: it prepares what another needs.
  double seconds = 0;
};
struct PassTimes {
  std::vector<PieceTime> pieces;  // In the order of the pass.
  double seconds = 0;             // Of the whole pass, by the same clock.
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendInfo& info() const = 0;

  // Scratch of its own for passes of up to max_rows rows of this model. Called once, before the first pass.
  virtual Result<void> prepare(const ModelSpec& spec, int max_rows) = 0;
  // What a plan has to count of it. 0: nothing that matters beside the model.
  virtual std::size_t scratch_bytes(const ModelSpec&, int) const { return 0; }
  // Of the passes that follow.
  virtual Mechanisms mechanisms() const { return {}; }
  // None is in flight. After an error only another call of it may follow.
  virtual Result<void> set_mechanisms(const Mechanisms&) {
    return Error{ErrorCode::kUnsupported, "mechanisms are those of a GPU; backend '" + info().name + "' has none to switch"};
  }

  virtual Result<Buffer> allocate(std::size_t bytes, std::string_view what) = 0;
  // The weights: `bytes` stay mapped as long as `owner` lives. A device with memory of its own copies them once.
  virtual Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner) = 0;
  // Host access, done when the call returns; it waits for no pass. What a pass in flight (submitted, not yet waited for) reads is not
  // written, what it writes is neither read nor written.
  virtual void write(const Buffer& to, std::size_t offset, std::span<const std::byte> bytes) = 0;
  virtual Result<void> read(const Buffer& from, std::size_t offset, std::span<std::byte> bytes) = 0;

  // True: name the steps of the pass now. False: a recording of this key exists and will be replayed by submit().
  virtual bool begin(const PassKey& key) = 0;
  virtual void embed(const EmbedArgs&) = 0;
  virtual void gdn_project(const GdnProjectArgs&) = 0;
  virtual void gdn_prepare(const GdnPrepareArgs&) = 0;
  virtual void gdn_scan(const GdnScanArgs&) = 0;
  virtual void project_residual(const ProjectResidualArgs&) = 0;
  virtual void attention_project(const AttentionProjectArgs&) = 0;
  virtual void attention_prepare(const AttentionPrepareArgs&) = 0;
  virtual void attention(const AttentionArgs&) = 0;
  virtual void route(const RouteArgs&) = 0;
  virtual void experts_up(const ExpertsUpArgs&) = 0;
  virtual void experts_down(const ExpertsDownArgs&) = 0;
  virtual void head(const HeadArgs&) = 0;
  virtual void score(const ScoreArgs&) = 0;
  virtual void choose(const ChooseArgs&) = 0;
  virtual void copy(const CopyArgs&) = 0;
  virtual void fold(const FoldArgs&) = 0;
  virtual Ticket submit() = 0;
  // Ends a pass in the middle of its naming, in place of submit(): no recording of its key is kept, and what its steps write
  // (states, KV rows past the position they began at, results) means nothing.
  virtual void abandon() = 0;
  virtual Result<void> wait(Ticket ticket) = 0;

  // Times so far that steps had to wait for each other: hand-overs to all threads on a CPU, barriers inside a pass on a device.
  // 0: not counted.
  virtual std::uint64_t barriers() const { return 0; }
  // Kernels handed to a device so far. 0: not counted.
  virtual std::uint64_t launches() const { return 0; }
  // Times the pass that was submitted last, of a backend that records passes and has replayed it: whole, and piece by piece, each the
  // median of so many repeats. It runs as often, on what lies in its buffers. kUnsupported where steps run at once: who calls them can
  // time them.
  virtual Result<PassTimes> time_last_pass(int /*repeats*/) {
    return Error{ErrorCode::kUnsupported, "backend '" + info().name + "' records no passes whose kernels could be timed"};
  }
};

// "cpu", "metal", "cuda", "emulator" or "reference"; kInvalidArgument names what there is, kUnsupported why it cannot be opened here.
Result<std::unique_ptr<Backend>> open_backend(const std::string& name, const BackendOptions& options);

}  // namespace lily
