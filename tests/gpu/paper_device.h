// A device of addresses only: programs are recorded for it and nothing runs. Failures come when
// asked for.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "backend/gpu/device.h"
#include "base/check.h"

namespace lily::gpu {

class PaperDevice final : public Device {
 public:
  const BackendInfo& info() const override { return info_; }
  Result<Buffer> allocate(std::size_t bytes, std::string_view) override { return reserve(bytes); }
  Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<void>) override {
    return reserve(bytes.size());
  }
  void write(void*, std::span<const std::byte>) override {}
  Result<void> read(const void*, std::span<std::byte> bytes) override {
    for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4)
      std::memcpy(bytes.data() + at, &read_word, 4);
    return {};
  }
  Result<void> load(std::span<const Kernel>) override { return take(load_error); }
  Result<std::shared_ptr<Recording>> build(const Program&) override {
    LILY_RETURN_IF_ERROR(take(build_error));
    ++builds;
    return std::make_shared<Recording>();
  }
  void submit(std::shared_ptr<Recording> recording, Ticket ticket) override {
    LILY_CHECK(recording != nullptr);
    submitted.push_back(ticket);
  }
  Result<void> wait(Ticket) override { return take(wait_error); }
  Result<ProgramTime> time(const Program&, int) override { return times; }

  std::optional<Error> load_error, build_error, wait_error;  // Of the next call.
  std::int32_t read_word = 0;                                // What all memory holds.
  int builds = 0;
  ProgramTime times;  // What timing finds.
  std::vector<Ticket> submitted;

 private:
  static Result<void> take(std::optional<Error>& error) {
    if (!error) return {};
    return *std::exchange(error, std::nullopt);
  }
  static Buffer reserve(std::size_t bytes) {
    const std::size_t mapped = std::max<std::size_t>(bytes, 1);
    void* pages =
        mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    LILY_CHECK(pages != MAP_FAILED);
    return Buffer(pages, bytes,
                  std::shared_ptr<void>(pages, [mapped](void* p) { munmap(p, mapped); }));
  }

  BackendInfo info_{.name = "paper",
                    .description = "addresses only",
                    .layout = WeightLayout::kRowMajor,
                    .kv_element_bytes = 2};
};

}  // namespace lily::gpu
