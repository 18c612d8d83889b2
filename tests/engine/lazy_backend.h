// A device as slow as can be: what is enqueued is computed when somebody waits for it and not
// before. Computed by another backend, which has to compute at once. Tests look at when passes come
// and plant faults in them.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/ops.h"

namespace lily {

class LazyBackend final : public Backend {
 public:
  explicit LazyBackend(std::unique_ptr<Backend> inner, int few_rows = kMaxSegments)
      : inner_(std::move(inner)) {
    info_ = inner_->info();
    info_.few_rows = few_rows;
    info_.runs_ahead = true;
  }

  // Of the pass that is being computed.
  std::function<void(Ticket, const ChooseArgs&)> before_choose = {};
  std::function<void(const EmbedArgs&)> after_embed = {};
  std::function<void(Ticket waited_for, Ticket submitted)> on_wait = {};
  std::optional<Ticket> fails = {};

  Ticket submitted() const { return submitted_; }
  std::size_t allocated_bytes() const { return allocated_bytes_; }

  const BackendInfo& info() const override { return info_; }
  Mechanisms mechanisms() const override { return mechanisms_; }
  Result<void> set_mechanisms(const Mechanisms& mechanisms) override {
    mechanisms_ = mechanisms;
    return {};
  }
  Result<void> prepare(const ModelSpec& spec, int rows) override {
    return inner_->prepare(spec, rows);
  }
  Result<Buffer> allocate(std::size_t bytes, std::string_view what) override {
    allocated_bytes_ += bytes;
    return inner_->allocate(bytes, what);
  }
  Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner) override {
    return inner_->adopt(bytes, std::move(owner));
  }
  void write(const Buffer& to, std::size_t offset, std::span<const std::byte> bytes) override {
    inner_->write(to, offset, bytes);
  }
  Result<void> read(const Buffer& from, std::size_t offset, std::span<std::byte> bytes) override {
    return inner_->read(from, offset, bytes);
  }

  bool begin(const PassKey& key) override {
    named_.clear();
    named_.push_back([this, key] { inner_->begin(key); });
    return true;
  }
  void embed(const EmbedArgs& args) override {
    named_.push_back([this, args] {
      inner_->embed(args);
      if (after_embed) after_embed(args);
    });
  }
  void gdn_project(const GdnProjectArgs& args) override { later<&Backend::gdn_project>(args); }
  void gdn_prepare(const GdnPrepareArgs& args) override { later<&Backend::gdn_prepare>(args); }
  void gdn_scan(const GdnScanArgs& args) override { later<&Backend::gdn_scan>(args); }
  void project_residual(const ProjectResidualArgs& args) override {
    later<&Backend::project_residual>(args);
  }
  void attention_project(const AttentionProjectArgs& args) override {
    later<&Backend::attention_project>(args);
  }
  void attention_prepare(const AttentionPrepareArgs& args) override {
    later<&Backend::attention_prepare>(args);
  }
  void attention(const AttentionArgs& args) override { later<&Backend::attention>(args); }
  void route(const RouteArgs& args) override { later<&Backend::route>(args); }
  void experts_up(const ExpertsUpArgs& args) override { later<&Backend::experts_up>(args); }
  void experts_down(const ExpertsDownArgs& args) override { later<&Backend::experts_down>(args); }
  void head(const HeadArgs& args) override { later<&Backend::head>(args); }
  void score(const ScoreArgs& args) override { later<&Backend::score>(args); }
  void choose(const ChooseArgs& args) override {
    named_.push_back([this, args] {
      if (before_choose) before_choose(computed_ + 1, args);
      inner_->choose(args);
    });
  }
  void copy(const CopyArgs& args) override { later<&Backend::copy>(args); }
  void fold(const FoldArgs& args) override { later<&Backend::fold>(args); }
  Ticket submit() override {
    waiting_.push_back(std::exchange(named_, {}));
    return ++submitted_;
  }
  void abandon() override { named_.clear(); }
  Result<void> wait(Ticket ticket) override {
    if (on_wait) on_wait(ticket, submitted_);
    while (computed_ < ticket) {
      for (const auto& step : waiting_.front()) step();
      waiting_.pop_front();
      static_cast<void>(inner_->submit());
      ++computed_;
    }
    if (!fails || *fails > ticket) return {};
    fails.reset();
    return Error{ErrorCode::kDevice, "planted"};
  }

 private:
  template <auto step, typename Args>
  void later(const Args& args) {
    named_.push_back([this, args] { ((*inner_).*step)(args); });
  }

  std::unique_ptr<Backend> inner_;
  BackendInfo info_;
  Mechanisms mechanisms_;
  std::vector<std::function<void()>> named_;
  std::deque<std::vector<std::function<void()>>> waiting_;
  Ticket submitted_ = 0, computed_ = 0;
  std::size_t allocated_bytes_ = 0;
};

}  // namespace lily
