// The reference backend: every step of ops.h as a plain loop, f32 buffers, sums in f64 and one
// rounding where a number enters a buffer. It is what other backends are compared with, on one
// thread, at once, without scratch. A step's method lies in the file of its name.
#pragma once

#include <memory>

#include "backend/ops.h"

namespace lily::reference {

class ReferenceBackend final : public Backend {
 public:
  ReferenceBackend();

  const BackendInfo& info() const override { return info_; }
  // Nothing to prepare; kInvalidArgument where max_rows is not in 1 .. kMaxPassRows.
  Result<void> prepare(const ModelSpec& spec, int max_rows) override;
  // kNoMemory names `what` and the bytes asked for.
  Result<Buffer> allocate(std::size_t bytes, std::string_view what) override;
  // The bytes themselves; kInvalidArgument where they are not aligned to 64.
  Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner) override;
  void write(const Buffer& to, std::size_t offset, std::span<const std::byte> bytes) override;
  Result<void> read(const Buffer& from, std::size_t offset, std::span<std::byte> bytes) override;

  // Steps run as they are named; nothing is ever recorded.
  bool begin(const PassKey&) override { return true; }
  void embed(const EmbedArgs& args) override;
  void gdn_project(const GdnProjectArgs& args) override;
  void gdn_prepare(const GdnPrepareArgs& args) override;
  void gdn_scan(const GdnScanArgs& args) override;
  void project_residual(const ProjectResidualArgs& args) override;
  void attention_project(const AttentionProjectArgs& args) override;
  void attention_prepare(const AttentionPrepareArgs& args) override;
  void attention(const AttentionArgs& args) override;
  void route(const RouteArgs& args) override;
  void experts_up(const ExpertsUpArgs& args) override;
  void experts_down(const ExpertsDownArgs& args) override;
  void head(const HeadArgs& args) override;
  void score(const ScoreArgs& args) override;
  void choose(const ChooseArgs& args) override;
  void copy(const CopyArgs& args) override;
  void fold(const FoldArgs& args) override;
  Ticket submit() override { return ++ticket_; }
  void abandon() override {}
  Result<void> wait(Ticket ticket) override;

 private:
  BackendInfo info_;
  Ticket ticket_ = 0;
};

// kInvalidArgument where options name an instruction set: there is none to choose. Other options change
// nothing here.
Result<std::unique_ptr<Backend>> open(const BackendOptions& options);

}  // namespace lily::reference
