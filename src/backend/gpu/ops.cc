// The contract, implemented by recording: begin() looks for a recording, the steps add launches to
// a new one, submit() has the device replay it.
#include <algorithm>
#include <utility>

#include "backend/gpu/gpu_backend.h"
#include "backend/gpu/steps/steps.h"
#include "base/check.h"

namespace lily::gpu {
namespace {

bool inside(const Buffer& buffer, std::size_t offset, std::size_t bytes) {
  return offset <= buffer.bytes() && bytes <= buffer.bytes() - offset;
}

}  // namespace

// Turns what steps say into a program.
class GpuBackend::PassRecorder final : public Recorder {
 public:
  PassRecorder(GpuBackend& backend, const PassKey& key) : backend_(backend), key_(key) {}

  const ModelSpec& spec() const override { return *backend_.spec_; }
  const Mechanisms& mechanisms() const override { return backend_.mechanisms_; }
  int rows_bound() const override { return key_.rows_bound; }
  int max_rows() const override { return backend_.max_rows_; }
  void* scratch(const char* name, std::size_t bytes) override;
  Range to_end_of_buffer(const void* address) const override {
    const std::size_t bytes = backend_.buffers_->to_end(address);
    LILY_CHECK(bytes > 0);
    return {address, bytes};
  }

  const PassKey& key() const { return key_; }
  Program& program() { return program_; }

 private:
  void add(Launch launch) override { program_.add(std::move(launch)); }

  GpuBackend& backend_;
  PassKey key_;
  Program program_;
};

void* GpuBackend::PassRecorder::scratch(const char* name, std::size_t bytes) {
  auto [found, is_new] = backend_.scratch_names_.try_emplace(name);
  if (is_new) {
    found->second = {backend_.scratch_.as<std::byte>(backend_.scratch_used_), bytes};
    backend_.scratch_used_ += round_up(bytes, kSectionAlign);
    LILY_CHECK(backend_.scratch_used_ <= backend_.scratch_.bytes());
  }
  LILY_CHECK(found->second.bytes == bytes);
  return const_cast<void*>(found->second.address);
}

GpuBackend::GpuBackend(std::unique_ptr<Device> device, const Mechanisms& mechanisms)
    : device_(std::move(device)), mechanisms_(mechanisms), buffers_(std::make_shared<Buffers>()) {}

GpuBackend::~GpuBackend() = default;

Result<void> GpuBackend::prepare(const ModelSpec& spec, int max_rows) {
  if (max_rows < 1 || max_rows > kMaxPassRows) {
    return Error{ErrorCode::kInvalidArgument, "rows of a pass: " + std::to_string(max_rows) +
                                                  ", expected 1 to " +
                                                  std::to_string(kMaxPassRows)};
  }
  if (!loaded_) LILY_RETURN_IF_ERROR(device_->load(kernels()));
  loaded_ = true;
  recordings_.clear();
  scratch_names_.clear();
  scratch_used_ = 0;
  spec_ = spec;
  max_rows_ = max_rows;
  LILY_TRY(scratch_, allocate(scratch_bytes(spec, max_rows), "scratch"));
  return {};
}

// The same buffer, with its end told to whoever keeps recordings.
Result<Buffer> GpuBackend::tracked(Buffer buffer) {
  buffers_->add(buffer.address(), buffer.bytes());
  void* const address = buffer.address();
  const std::size_t bytes = buffer.bytes();
  const auto forget = [buffers = buffers_, held = std::move(buffer)](void* at) {
    buffers->remove(at);
  };
  return Buffer(address, bytes, std::shared_ptr<void>(address, forget));
}

Result<Buffer> GpuBackend::allocate(std::size_t bytes, std::string_view what) {
  LILY_TRY(auto buffer, device_->allocate(bytes, what));
  return tracked(std::move(buffer));
}

Result<Buffer> GpuBackend::adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner) {
  const std::size_t past = reinterpret_cast<std::uintptr_t>(bytes.data()) % kSectionAlign;
  if (past != 0) {
    return Error{ErrorCode::kInvalidArgument, "weights lie " + std::to_string(past) +
                                                  " bytes past a multiple of 64, expected 0"};
  }
  LILY_TRY(auto buffer, device_->adopt(bytes, std::move(owner)));
  return tracked(std::move(buffer));
}

void GpuBackend::write(const Buffer& to, std::size_t offset, std::span<const std::byte> bytes) {
  LILY_CHECK(inside(to, offset, bytes.size()));
  if (!bytes.empty()) device_->write(to.as<std::byte>(offset), bytes);
}

Result<void> GpuBackend::read(const Buffer& from, std::size_t offset, std::span<std::byte> bytes) {
  LILY_CHECK(inside(from, offset, bytes.size()));
  if (bytes.empty()) return {};
  return device_->read(from.as<std::byte>(offset), bytes);
}

bool GpuBackend::begin(const PassKey& key) {
  LILY_CHECK(spec_.has_value() && !in_pass_);
  LILY_CHECK(key.rows_bound >= 0 &&
             key.rows_bound <= max_rows_);  // A pass that copies has no rows.
  in_pass_ = true;
  for (const Range& freed : buffers_->take_freed()) {
    recordings_.remove_if(
        [&](const Recorded& r) { return r.program.names(freed); });
  }
  const auto found = std::find_if(recordings_.begin(), recordings_.end(),
                                  [&](const Recorded& r) { return r.key == key; });
  if (found != recordings_.end()) {
    recordings_.splice(recordings_.begin(), recordings_, found);
    return false;
  }
  recording_ = std::make_unique<PassRecorder>(*this, key);
  return true;
}

Recorder& GpuBackend::recorder() {
  LILY_CHECK(recording_ != nullptr);
  return *recording_;
}

void GpuBackend::embed(const EmbedArgs& args) {
  record_embed(recorder(), args);
}
void GpuBackend::gdn_project(const GdnProjectArgs& args) {
  record_gdn_project(recorder(), args);
}
void GpuBackend::gdn_prepare(const GdnPrepareArgs& args) {
  record_gdn_prepare(recorder(), args);
}
void GpuBackend::gdn_scan(const GdnScanArgs& args) {
  record_gdn_scan(recorder(), args);
}
void GpuBackend::project_residual(const ProjectResidualArgs& args) {
  record_project_residual(recorder(), args);
}
void GpuBackend::attention_project(const AttentionProjectArgs& args) {
  record_attention_project(recorder(), args);
}
void GpuBackend::attention_prepare(const AttentionPrepareArgs& args) {
  record_attention_prepare(recorder(), args);
}
void GpuBackend::attention(const AttentionArgs& args) {
  record_attention(recorder(), args);
}
void GpuBackend::route(const RouteArgs& args) {
  record_route(recorder(), args);
}
void GpuBackend::experts_up(const ExpertsUpArgs& args) {
  record_experts_up(recorder(), args);
}
void GpuBackend::experts_down(const ExpertsDownArgs& args) {
  record_experts_down(recorder(), args);
}
void GpuBackend::head(const HeadArgs& args) {
  record_head(recorder(), args);
}
void GpuBackend::score(const ScoreArgs& args) {
  record_score(recorder(), args);
}
void GpuBackend::choose(const ChooseArgs& args) {
  record_choose(recorder(), args);
}

void GpuBackend::copy(const CopyArgs& args) {
  record_copy(recorder(), args);
}

void GpuBackend::replay(const Program& program,
                        Result<std::shared_ptr<Device::Recording>> recording) {
  ++ticket_;
  if (!recording) {
    failed_.emplace(ticket_, std::move(recording).error());
    return;
  }
  device_->submit(*std::move(recording), ticket_);
  barriers_ += program.barriers();
  launches_ += program.launches().size();
}

Ticket GpuBackend::submit() {
  LILY_CHECK(in_pass_);
  in_pass_ = false;
  if (const auto pass = std::exchange(recording_, nullptr)) {
    auto built = device_->build(pass->program());
    if (!built) {
      replay(pass->program(), std::move(built));
      return ticket_;
    }
    if (recordings_.size() == kMaxRecordings) recordings_.pop_back();
    recordings_.push_front({pass->key(), std::move(pass->program()), *std::move(built)});
  }
  replay(recordings_.front().program, recordings_.front().recording);
  return ticket_;
}

void GpuBackend::abandon() {
  LILY_CHECK(recording_ != nullptr);
  recording_.reset();
  in_pass_ = false;
}

Result<void> GpuBackend::wait(Ticket ticket) {
  LILY_CHECK(ticket <= ticket_);
  const auto done = device_->wait(ticket);
  if (!failed_.empty() && failed_.begin()->first <= ticket) {
    return std::move(failed_.extract(failed_.begin()).mapped());
  }
  return done;
}

const Program* GpuBackend::recorded(const PassKey& key) const {
  const auto found = std::find_if(recordings_.begin(), recordings_.end(),
                                  [&](const Recorded& r) { return r.key == key; });
  return found == recordings_.end() ? nullptr : &found->program;
}

}  // namespace lily::gpu
