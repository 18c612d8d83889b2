// A backend whose memory the host cannot touch: between passes every buffer is closed to reading and writing, so that a stray access
// ends the test. It also holds that steps come between begin() and submit(), and tells a test of each.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/ops.h"

namespace lily {

class FencedBackend final : public Backend {
 public:
  explicit FencedBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}
  ~FencedBackend() override { open(); }

  std::function<void(const std::string& step)> on_step = {};

  const BackendInfo& info() const override { return inner_->info(); }
  Result<void> prepare(const ModelSpec& spec, int max_rows) override { return inner_->prepare(spec, max_rows); }
  Result<Buffer> allocate(std::size_t bytes, std::string_view what) override {
    auto buffer = inner_->allocate(bytes, what);
    if (buffer) buffers_.push_back(*buffer), close();
    return buffer;
  }
  Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner) override {
    return inner_->adopt(bytes, std::move(owner));
  }
  void write(const Buffer& to, std::size_t offset, std::span<const std::byte> bytes) override {
    open();
    inner_->write(to, offset, bytes);
    close();
  }
  Result<void> read(const Buffer& from, std::size_t offset, std::span<std::byte> bytes) override {
    open();
    auto done = inner_->read(from, offset, bytes);
    close();
    return done;
  }

  bool begin(const PassKey& key) override {
    EXPECT_FALSE(in_pass_);
    in_pass_ = true;
    open();
    return inner_->begin(key);
  }
  void embed(const EmbedArgs& args) override { step("embed", [&] { inner_->embed(args); }); }
  void gdn_project(const GdnProjectArgs& args) override { step("gdn_project", [&] { inner_->gdn_project(args); }); }
  void gdn_prepare(const GdnPrepareArgs& args) override { step("gdn_prepare", [&] { inner_->gdn_prepare(args); }); }
  void gdn_scan(const GdnScanArgs& args) override { step("gdn_scan", [&] { inner_->gdn_scan(args); }); }
  void project_residual(const ProjectResidualArgs& args) override {
    step("project_residual", [&] { inner_->project_residual(args); });
  }
  void attention_project(const AttentionProjectArgs& args) override {
    step("attention_project", [&] { inner_->attention_project(args); });
  }
  void attention_prepare(const AttentionPrepareArgs& args) override {
    step("attention_prepare", [&] { inner_->attention_prepare(args); });
  }
  void attention(const AttentionArgs& args) override { step("attention", [&] { inner_->attention(args); }); }
  void route(const RouteArgs& args) override { step("route", [&] { inner_->route(args); }); }
  void experts_up(const ExpertsUpArgs& args) override { step("experts_up", [&] { inner_->experts_up(args); }); }
  void experts_down(const ExpertsDownArgs& args) override { step("experts_down", [&] { inner_->experts_down(args); }); }
  void head(const HeadArgs& args) override { step("head", [&] { inner_->head(args); }); }
  void score(const ScoreArgs& args) override { step("score", [&] { inner_->score(args); }); }
  void choose(const ChooseArgs& args) override { step("choose", [&] { inner_->choose(args); }); }
  void copy(const CopyArgs& args) override { step("copy", [&] { inner_->copy(args); }); }
  void fold(const FoldArgs& args) override { step("fold", [&] { inner_->fold(args); }); }
  Ticket submit() override {
    end_pass();
    return inner_->submit();
  }
  void abandon() override {
    end_pass();
    inner_->abandon();
  }
  Result<void> wait(Ticket ticket) override { return inner_->wait(ticket); }

 private:
  void step(const char* name, const std::function<void()>& run) {
    EXPECT_TRUE(in_pass_) << name;
    run();
    if (on_step) on_step(name);
  }
  void end_pass() {
    EXPECT_TRUE(in_pass_);
    in_pass_ = false;
    close();
  }
  void open() { protect(PROT_READ | PROT_WRITE); }
  void close() { protect(PROT_NONE); }
  // Both backends map each buffer's pages for itself.
  void protect(int allowed) {
    for (const Buffer& buffer : buffers_) ASSERT_EQ(::mprotect(buffer.address(), buffer.bytes(), allowed), 0);
  }

  std::unique_ptr<Backend> inner_;
  std::vector<Buffer> buffers_;
  bool in_pass_ = false;
};

}  // namespace lily
