// What the parts of the stand-in share: the machine it plays, faults, and the GPU's address space.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "tests/metal/fake/fake.h"
#include "tests/metal/fake/runtime.h"

namespace lily::fake_metal {

Machine machine();
Faults faults();
// Counts down; true where it is this call's turn to fail.
bool fault_due(int Faults::*counter);
void count_command_buffer();
void count_residency_request();

Methods process_methods();
Methods compile_options_factory();
Methods residency_descriptor_factory();

// The GPU reaches memory at other addresses than the host, with room between buffers that nobody
// may touch, and an address is never given out twice.
std::byte* reserve_gpu_addresses(std::size_t bytes);
void give_up_gpu_addresses(std::byte* at, std::size_t bytes);
bool in_gpu_space(std::uintptr_t address);

class FakeBuffer;
// Buffers alive, by the GPU's address.
void register_buffer(FakeBuffer& buffer, bool alive);
FakeBuffer* buffer_at(std::uintptr_t gpu_address);
bool is_alive(const FakeBuffer* buffer);

std::size_t page_bytes();

}  // namespace lily::fake_metal
