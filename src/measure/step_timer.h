// A backend that runs steps at once, with every step timed.
#pragma once

#include <utility>
#include <vector>

#include "backend/ops.h"

namespace lily {

class StepTimer final : public Backend {
 public:
  // `inner` outlives it and does not run ahead.
  explicit StepTimer(Backend& inner) : inner_(inner) {}

  // What ran since the last call, a piece a step.
  std::vector<PieceTime> take() { return std::exchange(pieces_, {}); }

  const BackendInfo& info() const override { return inner_.info(); }
  Result<void> prepare(const ModelSpec& spec, int max_rows) override {
    return inner_.prepare(spec, max_rows);
  }
  Result<Buffer> allocate(std::size_t bytes, std::string_view what) override {
    return inner_.allocate(bytes, what);
  }
  Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner) override {
    return inner_.adopt(bytes, std::move(owner));
  }
  void write(const Buffer& to, std::size_t offset, std::span<const std::byte> bytes) override {
    inner_.write(to, offset, bytes);
  }
  Result<void> read(const Buffer& from, std::size_t offset, std::span<std::byte> bytes) override {
    return inner_.read(from, offset, bytes);
  }

  bool begin(const PassKey& key) override { return inner_.begin(key); }
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
  Ticket submit() override { return inner_.submit(); }
  void abandon() override { inner_.abandon(); }
  Result<void> wait(Ticket ticket) override { return inner_.wait(ticket); }

 private:
  template <typename Args>
  void timed(const char* name, void (Backend::*step)(const Args&), const Args& args);

  Backend& inner_;
  std::vector<PieceTime> pieces_;
};

}  // namespace lily
