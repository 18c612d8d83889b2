// Two devices as one: every launch runs on the emulator and on another device, from the same bytes,
// and what it writes is compared. So each kernel is tried with what real passes give it, and a
// wrong one is named instead of a wrong answer.
//
// The emulator's memory is the truth: programs see it alone, and before a launch the other device
// gets what the launch declares, so that differences do not add up.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/gpu/device.h"
#include "backend/gpu/emulator_device.h"

namespace lily::gpu {

// A kernel's launches so far.
struct KernelComparison {
  int n_launches = 0;
  std::uint64_t n_words = 0;      // 32 bits each, written by either.
  std::uint64_t n_different = 0;  // Of those that are no floats, or floats that are not finite
  double worst = 0;  // Largest difference of floats as a share of the largest of the range.
  // Of the first launch: a few words that the emulator changed, and the same of the other.
  std::vector<std::uint32_t> expected = {}, found = {};
  bool samples_are_bf16 = false;  // Pairs.
};
using Comparisons = std::map<std::string, KernelComparison>;

// Adds what two outputs of the same words show. `bf16`: pairs of bf16 in place of floats.
void compare_words(std::span<const std::uint32_t> expected, std::span<const std::uint32_t> found,
                   bool bf16, KernelComparison& to);

class TwinDevice final : public Device {
 public:
  // `comparisons` outlives the device.
  TwinDevice(std::unique_ptr<EmulatorDevice> judge, std::unique_ptr<Device> other,
             Comparisons& comparisons);
  ~TwinDevice() override;

  const BackendInfo& info() const override { return judge_->info(); }
  Result<Buffer> allocate(std::size_t bytes, std::string_view what) override;
  Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner) override;
  void write(void* to, std::span<const std::byte> bytes) override { judge_->write(to, bytes); }
  Result<void> read(const void* from, std::span<std::byte> bytes) override {
    return judge_->read(from, bytes);
  }
  Result<void> load(std::span<const Kernel> kernels) override { return other_->load(kernels); }
  Result<std::shared_ptr<Recording>> build(const Program& program) override;
  // Done when it returns.
  void submit(std::shared_ptr<Recording> recording, Ticket ticket) override;
  Result<void> wait(Ticket ticket) override;

 private:
  class Memory;
  Result<void> run(const Launch& launch);
  Result<void> give(const Launch& launch);
  Result<void> run_on(Device& device, Launch launch);
  // `before`: what the launch's ranges held on the emulator.
  Result<void> compare(const Launch& launch, const std::vector<std::vector<std::byte>>& before);

  std::unique_ptr<EmulatorDevice> judge_;
  std::unique_ptr<Device> other_;
  Comparisons& comparisons_;
  std::shared_ptr<Memory> memory_;  // Buffers hold it too.
  Ticket launches_ = 0;
  std::map<Ticket, Error> failures_;  // Not yet told.
};

}  // namespace lily::gpu
