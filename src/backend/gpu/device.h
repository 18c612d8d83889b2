// What a GPU has to do for the backend: hold memory, hold kernels, replay programs in order.
// emulator/ is the one that every machine has; one for CUDA or Metal has its own folder beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/gpu/program.h"
#include "backend/ops.h"

namespace lily::gpu {

inline std::uintptr_t number(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

// What a device runs for some launches of a program, often for one, and how long it takes alone.
struct LaunchTime {
  std::string kernel;  // As the device names it.
  // Launches whose work it does; none: it prepares what another needs.
  std::vector<std::size_t> takes;
  double seconds = 0;
};
struct ProgramTime {
  std::vector<LaunchTime> launches;  // In the order of the program.
  double seconds = 0;                // A whole replay, by the same clock.
};

class Device {
 public:
  // What the device made of a program: a graph, a list of bound kernels. Replayed any number of
  // times; the device keeps it as long as a replay runs.
  class Recording {
   public:
    virtual ~Recording() = default;
  };

  virtual ~Device() = default;
  virtual const BackendInfo& info() const = 0;

  // Zeroed, aligned to 64 bytes. Addresses are the device's; the host goes through write() and
  // read(). Memory may outlive the device object, so what both need is held by the buffer's owner.
  // A buffer is not freed while a replay in flight names it.
  virtual Result<Buffer> allocate(std::size_t bytes, std::string_view what) = 0;
  // Memory of the host that kernels only read, kept mapped by `owner`: the bytes themselves where
  // memory is shared, else a copy.
  virtual Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner) = 0;
  // Host access, done when the call returns. It neither waits for replays nor is ordered with them,
  // so that the host can prepare a pass and take the results of another while the device is busy.
  // Therefore the host keeps away from what a replay in flight declares: it writes no byte that one
  // reads or writes, and reads none that one writes. In flight: submitted, and covered by no wait()
  // that has returned. A replay sees what was written before its submit(); read() sees what a
  // replay wrote once wait() covered it. The emulator ends the program on a breach.
  virtual void write(void* to, std::span<const std::byte> bytes) = 0;
  virtual Result<void> read(const void* from, std::span<std::byte> bytes) = 0;

  // Compiles or loads kernels so that programs may use them; kDevice names the one that failed.
  virtual Result<void> load(std::span<const Kernel> kernels) = 0;
  virtual Result<std::shared_ptr<Recording>> build(const Program& program) = 0;
  // Enqueues a replay and returns, however many are under way. Replays follow each other in order,
  // everything of one before anything of the next, also after one that failed. Tickets rise.
  virtual void submit(std::shared_ptr<Recording> recording, Ticket ticket) = 0;
  // Until every replay up to this ticket is done; later ones go on. The error of a replay is told
  // by the first wait that covers it; of several, that of the earliest.
  virtual Result<void> wait(Ticket ticket) = 0;

  // Replays a program while nothing else runs, whole and what it runs by itself, each the median of
  // so many repeats, by the device's own clock where it has one.
  virtual Result<ProgramTime> time(const Program& /*program*/, int /*repeats*/) {
    return Error{ErrorCode::kUnsupported, "device '" + info().name + "' times no kernels"};
  }
};

}  // namespace lily::gpu
