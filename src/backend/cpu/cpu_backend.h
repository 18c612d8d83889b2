// The CPU backend: each step runs at once, on one thread pool, with kernels for the instruction set
// found at start. A step's method lies in the file of its name; those that are plain products lie
// together in projections.cc, the two of the experts in experts.cc. The loops over numbers lie in
// kernels/, compiled once per instruction set (isa_*.cc). Every float has one written order of
// operations that is the same in all instruction sets and for any number of threads, rows or chunks
// (docs/NUMERICS.md).
#pragma once

#include <memory>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/linear.h"
#include "backend/cpu/thread_pool.h"
#include "backend/cpu/vocabulary.h"
#include "backend/ops.h"

namespace lily::cpu {

class CpuBackend final : public Backend {
 public:
  CpuBackend(const BackendOptions& options, const Kernels& kernels, int threads);

  const BackendInfo& info() const override { return info_; }
  Result<void> prepare(const ModelSpec& spec, int max_rows) override;
  Result<Buffer> allocate(std::size_t bytes, std::string_view what) override;
  Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner) override;
  void write(const Buffer& to, std::size_t offset, std::span<const std::byte> bytes) override;
  Result<void> read(const Buffer& from, std::size_t offset, std::span<std::byte> bytes) override;

  bool begin(const PassKey&) override { return true; }
  void embed(const EmbedArgs&) override;
  void gdn_project(const GdnProjectArgs&) override;
  void gdn_prepare(const GdnPrepareArgs&) override;
  void gdn_scan(const GdnScanArgs&) override;
  void project_residual(const ProjectResidualArgs&) override;
  void attention_project(const AttentionProjectArgs&) override;
  void attention_prepare(const AttentionPrepareArgs&) override;
  void attention(const AttentionArgs&) override;
  void route(const RouteArgs&) override;
  void experts_up(const ExpertsUpArgs& args) override { linear_.experts_up(args); }
  void experts_down(const ExpertsDownArgs& args) override { linear_.experts_down(args); }
  void head(const HeadArgs&) override;
  void score(const ScoreArgs&) override;
  void choose(const ChooseArgs&) override;
  void copy(const CopyArgs&) override;
  void fold(const FoldArgs&) override;
  Ticket submit() override { return ++ticket_; }
  void abandon() override {}
  Result<void> wait(Ticket) override { return {}; }
  std::uint64_t barriers() const override { return pool_.barriers(); }

 private:
  // Scratch of the steps that multiply no matrix; Linear keeps its own.
  struct Scratch {
    Buffer per_thread;  // A slice a thread: attention's tiles, a slice of a delta state, or keys
                        // and scores of a row of logits
    std::size_t per_thread_bytes = 0;
    Buffer partials;  // Unfinished softmaxes, n_partials of them: attention_scratch.h
    std::int64_t n_partials = 0;
    Buffer stats;       // ChunkStats [kHeadBlockRows, chunks of the vocabulary]
    Buffer divergence;  // double, the same shape
    std::int64_t vocab = 0;
  };

  // `bytes` of a thread's slice.
  float* thread_scratch(int thread, std::size_t bytes) const;
  // ChunkStats of all chunks of the rows, and what they say of row i.
  void gather_stats(const LogitRows& rows);
  RowSummary summary_of(const LogitRows& rows, std::int64_t i) const;
  // A thread's room for the keys and for the adjusted logits of one row.
  std::span<std::uint64_t> keys_of(int thread) const;
  std::span<float> scores_of(int thread, std::size_t vocab) const;

  BackendInfo info_;
  BackendOptions options_;
  const Kernels& kernels_;
  ThreadPool pool_;
  Linear linear_;  // Products with quantised matrices; prepare() sizes it.
  Scratch scratch_;
  Ticket ticket_ = 0;
};

Result<std::unique_ptr<Backend>> open(const BackendOptions& options);

}  // namespace lily::cpu
