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
  PassRecorder(GpuBackend& backend, const PassKey& key) : backend_(backend), key_(key) {
    begin_part(nullptr);
  }

  const ModelSpec& spec() const override { return *backend_.spec_; }
  const Mechanisms& mechanisms() const override { return backend_.mechanisms_; }
  const Tuning& tuning() const override { return backend_.tuning_; }
  int rows_bound() const override { return key_.rows_bound; }
  int context_bound() const override { return key_.context_bound; }
  int max_rows() const override { return backend_.max_rows_; }
  void* scratch(const char* name, std::size_t bytes) override;
  Range to_end_of_buffer(const void* address) const override {
    const std::size_t bytes = backend_.buffers_->to_end(address);
    LILY_CHECK(bytes > 0);
    return {address, bytes};
  }

  void host_step(HostStep step) override { begin_part(std::move(step)); }

  const PassKey& key() const { return key_; }
  std::vector<Part>& parts() { return parts_; }

  // Left by attention_prepare for the attention that follows.
  std::optional<AttentionPrepareArgs> prepare;
  // Left by head for the choose that follows.
  std::optional<HeadArgs> head;
  std::string_view current_step;

 private:
  void begin_part(HostStep before) {
    const bool concurrent = mechanisms().concurrent_dispatch;
    parts_.push_back({std::move(before),
                      Program(concurrent ? Barriers::kWhereNeeded : Barriers::kEverywhere,
                              mechanisms().own_kernels)});
  }
  void add(Launch launch) override {
    forget_derived(launch.writes);
    launch.step = current_step;
    parts_.back().program.add(std::move(launch));
  }

  GpuBackend& backend_;
  PassKey key_;
  std::vector<Part> parts_;
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

GpuBackend::GpuBackend(std::unique_ptr<Device> device, const Mechanisms& mechanisms,
                       const Tuning& tuning)
    : device_(std::move(device)),
      info_(device_->info()),
      mechanisms_(mechanisms),
      tuning_(tuning),
      buffers_(std::make_shared<Buffers>()) {
  info_.few_rows = kFewRows;
}

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
  LILY_TRY(scratch_, allocate(gpu::scratch_bytes(spec, max_rows, mechanisms_), "scratch"));
  return {};
}

std::size_t GpuBackend::scratch_bytes(const ModelSpec& spec, int max_rows) const {
  return gpu::scratch_bytes(spec, max_rows, mechanisms_);
}

Result<void> GpuBackend::set_mechanisms(const Mechanisms& mechanisms) {
  LILY_CHECK(spec_.has_value() && !in_pass_);
  static_cast<void>(finish_replays());  // Errors are kept for wait().
  mechanisms_ = mechanisms;
  scratch_ = {};  // Two of them may not fit.
  return prepare(ModelSpec(*spec_), max_rows_);
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
    const auto names = [&](const Part& p) { return p.program.names(freed); };
    recordings_.remove_if(
        [&](const Recorded& r) { return std::any_of(r.parts.begin(), r.parts.end(), names); });
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

void GpuBackend::settle() {
  LILY_CHECK(recording_ != nullptr);
  if (const auto prepare = std::exchange(recording_->prepare, std::nullopt)) {
    recording_->current_step = "attention_prepare";
    record_attention_prepare(*recording_, *prepare);
  }
  if (const auto head = std::exchange(recording_->head, std::nullopt)) {
    recording_->current_step = "head";
    record_head(*recording_, *head);
  }
}

Recorder& GpuBackend::recorder(std::string_view step) {
  settle();
  recording_->current_step = step;
  return *recording_;
}

void GpuBackend::embed(const EmbedArgs& args) {
  record_embed(recorder("embed"), args);
}
void GpuBackend::gdn_project(const GdnProjectArgs& args) {
  record_gdn_project(recorder("gdn_project"), args);
}
void GpuBackend::gdn_prepare(const GdnPrepareArgs& args) {
  record_gdn_prepare(recorder("gdn_prepare"), args);
}
void GpuBackend::gdn_scan(const GdnScanArgs& args) {
  record_gdn_scan(recorder("gdn_scan"), args);
}
void GpuBackend::project_residual(const ProjectResidualArgs& args) {
  record_project_residual(recorder("project_residual"), args);
}
void GpuBackend::attention_project(const AttentionProjectArgs& args) {
  record_attention_project(recorder("attention_project"), args);
}
void GpuBackend::attention_prepare(const AttentionPrepareArgs& args) {
  if (attention_prepares(recorder("attention_prepare")))
    recording_->prepare = args;
  else
    record_attention_prepare(*recording_, args);
}
void GpuBackend::attention(const AttentionArgs& args) {
  LILY_CHECK(recording_ != nullptr);
  const auto prepare = std::exchange(recording_->prepare, std::nullopt);
  record_attention(recorder("attention"), args, prepare ? &*prepare : nullptr);
}
void GpuBackend::route(const RouteArgs& args) {
  record_route(recorder("route"), args);
}
void GpuBackend::experts_up(const ExpertsUpArgs& args) {
  record_experts_up(recorder("experts_up"), args);
}
void GpuBackend::experts_down(const ExpertsDownArgs& args) {
  record_experts_down(recorder("experts_down"), args);
}
void GpuBackend::head(const HeadArgs& args) {
  if (choose_takes_head(recorder("head")))
    recording_->head = args;
  else
    record_head(*recording_, args);
}
void GpuBackend::score(const ScoreArgs& args) {
  record_score(recorder("score"), args);
}
void GpuBackend::choose(const ChooseArgs& args) {
  LILY_CHECK(recording_ != nullptr);
  const auto head = std::exchange(recording_->head, std::nullopt);
  record_choose(recorder("choose"), args, head ? &*head : nullptr);
}

void GpuBackend::copy(const CopyArgs& args) {
  record_copy(recorder("copy"), args);
}

void GpuBackend::fold(const FoldArgs& args) {
  record_fold(recorder("fold"), args);
}

Result<void> GpuBackend::build(std::vector<Part>& parts) {
  for (Part& part : parts) {
    LILY_TRY(part.recording, device_->build(part.program));
  }
  return {};
}

bool GpuBackend::finish_replays() {
  for (; waited_ < ticket_; ++waited_) {
    auto done = device_->wait(waited_ + 1);
    if (!done) failed_.emplace(waited_ + 1, std::move(done).error());
  }
  return failed_.count(ticket_) == 0;
}

void GpuBackend::replay(const Recorded& pass) {
  for (const Part& part : pass.parts) {
    if (part.before) {
      if (!finish_replays()) return;
      auto done = part.before(*device_);
      if (!done) return fail(std::move(done).error());
    }
    device_->submit(part.recording, ++ticket_);
    barriers_ += part.program.barriers();
    launches_ += part.program.launches().size();
  }
}

Ticket GpuBackend::submit() {
  LILY_CHECK(in_pass_);
  in_pass_ = false;
  if (recording_ != nullptr) settle();
  if (const auto pass = std::exchange(recording_, nullptr)) {
    auto built = build(pass->parts());
    if (!built) {
      fail(std::move(built).error());
      return ticket_;
    }
    if (recordings_.size() == kMaxRecordings) recordings_.pop_back();
    recordings_.push_front({pass->key(), std::move(pass->parts())});
  }
  replay(recordings_.front());
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
  waited_ = std::max(waited_, ticket);
  if (!failed_.empty() && failed_.begin()->first <= ticket) {
    return std::move(failed_.extract(failed_.begin()).mapped());
  }
  return done;
}

Result<PassTimes> GpuBackend::time_last_pass(int repeats) {
  LILY_CHECK(!in_pass_ && !recordings_.empty());
  if (!finish_replays()) {
    return Error{ErrorCode::kDevice, "timing a pass: the pass itself failed"};
  }
  PassTimes out;
  for (const Part& part : recordings_.front().parts) {
    LILY_TRY(auto times, device_->time(part.program, repeats));
    out.seconds += times.seconds;
    for (LaunchTime& launch : times.launches) {
      PieceTime piece{.kernel = std::move(launch.kernel), .work = {}, .seconds = launch.seconds};
      for (const std::size_t taken : launch.takes) {
        const Launch& l = part.program.launches()[taken];
        piece.work.push_back({std::string(l.step), l.kernel->name});
      }
      out.pieces.push_back(std::move(piece));
    }
  }
  return out;
}

const Program* GpuBackend::recorded(const PassKey& key) const {
  const auto found = std::find_if(recordings_.begin(), recordings_.end(),
                                  [&](const Recorded& r) { return r.key == key; });
  return found == recordings_.end() ? nullptr : &found->parts.front().program;
}

}  // namespace lily::gpu
