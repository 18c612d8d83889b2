// The steps of ops.h on a GPU. The first pass of a key is recorded, step by step, as a program;
// passes of the same key replay it. Which device replays is device.h's business.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/gpu/device.h"
#include "backend/ops.h"

namespace lily::gpu {

// Buffers by address, and those that were freed since somebody asked: a recording that names one is
// worthless.
class Buffers {
 public:
  void add(const void* address, std::size_t bytes);
  void remove(const void* address);
  // The bytes from an address to the end of the buffer that holds it; 0 where none does.
  std::size_t to_end(const void* address) const;
  std::vector<Range> take_freed();

 private:
  mutable std::mutex mutex_;  // A buffer may be freed by any thread.
  std::map<std::uintptr_t, std::size_t> sizes_;
  std::vector<Range> freed_;
};

class GpuBackend final : public Backend {
 public:
  // Recordings kept; past it the one unused for longest goes.
  static constexpr std::size_t kMaxRecordings = 64;

  explicit GpuBackend(std::unique_ptr<Device> device, const Mechanisms& mechanisms = {},
                      const Tuning& tuning = {});
  ~GpuBackend() override;

  const BackendInfo& info() const override { return info_; }
  // Scratch of all steps; kInvalidArgument where max_rows is not in 1 .. kMaxPassRows. Forgets
  // recordings.
  Result<void> prepare(const ModelSpec& spec, int max_rows) override;
  std::size_t scratch_bytes(const ModelSpec& spec, int max_rows) const override;
  Mechanisms mechanisms() const override { return mechanisms_; }
  // Forgets recordings.
  Result<void> set_mechanisms(const Mechanisms& mechanisms) override;
  Result<Buffer> allocate(std::size_t bytes, std::string_view what) override;
  Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner) override;
  void write(const Buffer& to, std::size_t offset, std::span<const std::byte> bytes) override;
  Result<void> read(const Buffer& from, std::size_t offset, std::span<std::byte> bytes) override;

  // A recording lives as long as the buffers that it names.
  bool begin(const PassKey& key) override;
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
  // What a device refuses is told by wait().
  Ticket submit() override;
  void abandon() override;
  Result<void> wait(Ticket ticket) override;

  std::uint64_t barriers() const override { return barriers_; }
  std::uint64_t launches() const override { return launches_; }
  // What a host step would do is left out.
  Result<PassTimes> time_last_pass(int repeats) override;

  // The recording of a key, of one with host steps what comes before the first; null where there is
  // none.
  const Program* recorded(const PassKey& key) const;

 private:
  class PassRecorder;
  // Launches up to the next host step, and what the host does before them.
  struct Part {
    HostStep before;
    Program program;
    std::shared_ptr<Device::Recording> recording = nullptr;
  };
  struct Recorded {
    PassKey key;
    std::vector<Part> parts;
  };

  // Of the pass that is being named. What an earlier step left for the next one to do with its own
  // work is recorded now, since another step came.
  Recorder& recorder(std::string_view step);
  void settle();
  // What a recorded pass is for the device; or what the device refuses.
  Result<void> build(std::vector<Part>& parts);
  void replay(const Recorded& pass);
  // Waits for all replays, with errors kept for wait(). Did the last one end well?
  bool finish_replays();
  // The ticket of work that ends with an error, which is kept for wait().
  void fail(Error error) { failed_.emplace(++ticket_, std::move(error)); }
  Result<Buffer> tracked(Buffer buffer);

  std::unique_ptr<Device> device_;
  BackendInfo info_;
  Mechanisms mechanisms_;
  Tuning tuning_;
  std::shared_ptr<Buffers> buffers_;
  std::optional<ModelSpec> spec_;
  int max_rows_ = 0;
  Buffer scratch_;
  std::size_t scratch_used_ = 0;
  std::map<std::string, Range> scratch_names_;

  std::list<Recorded> recordings_;           // The last used first.
  std::unique_ptr<PassRecorder> recording_;  // The pass that is being named.
  bool in_pass_ = false, loaded_ = false;
  Ticket ticket_ = 0, waited_ = 0;
  std::map<Ticket, Error> failed_;
  std::uint64_t barriers_ = 0, launches_ = 0;
};

}  // namespace lily::gpu
