// A stand-in for the Objective-C runtime and for Metal, for tests on other systems: objects with
// their ownership rules, calls refused that Metal refuses, kernels run by the emulator. This header
// is the test's side of it: what machine it plays, what shall fail, what it saw.
//
// Where Metal's checks would end the program, or where Metal promises nothing, the stand-in ends it
// too, or notes a misuse for the test to look at. What it cannot show: whether Apple's compiler
// takes the kernels, how fast they are, and what an M-series GPU does with a race.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lily::fake_metal {

struct Machine {
  long os_major = 26;
  long family = 1009;  // Up to which MTLGPUFamilyApple... the GPU goes: 1007 is M1's.
  bool has_device = true;
  std::size_t max_buffer_bytes = std::size_t{16} << 30;
  std::uint64_t working_set_bytes = std::uint64_t{24} << 30;
  std::size_t simd_width = 32;
  bool observe = false;  // The emulator watches every access; see emulator.h.
};

// What goes wrong. A counter of n lets n pass and fails the one behind; -1: none.
struct Faults {
  int allocation = -1;
  int queue_object = -1;              // A command queue, event, fence or residency set
  std::string compiling = {};         // Text of a kernel file that the compiler refuses.
  std::string pipeline = {};          // Kernel whose pipeline is refused.
  std::string missing_function = {};  // Kernel that its library lacks.
  std::string few_threads = {};       // Kernel that takes 32 threads a group.
  int command_buffer = -1;            // Ends with an error, signals nothing.
  long command_error = 3;             // MTLCommandBufferError: page fault
  int no_command_buffer = -1;         // nil in place of a command buffer.
  int lost_signal = -1;               // Ends well, signals nothing.
  int late_error = -1;                // Signals, then ends with an error.
  int delay_ms = 0;                   // Before each command buffer.
  int late_status_ms = 0;             // Between the signal and the status.
  bool stuck = false;                 // Command buffers do not begin.
};

// A new machine: nothing fails, no misuse, kernels are found by name in the emulator's table.
void reset(const Machine& machine = {});
void set_faults(const Faults& faults);

// Collects misuses from here on; before, each ends the program.
void collect_misuse();
std::vector<std::string> take_misuse();

// Objects alive, except classes.
long live_objects();
// "2 FakeBuffer, 1 FakeEvent"
std::string live_report();
// At the program's end: says so on standard error and fails where objects are left.
void check_objects_at_exit();
// Command buffers that began, since reset().
int command_buffers_begun();
// Times that residency was asked for, since reset().
int residency_requests();

}  // namespace lily::fake_metal
