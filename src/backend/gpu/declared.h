// Holds a program to what it declared: the emulator saw what each launch touched.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "backend/gpu/emulator/emulator.h"
#include "backend/gpu/program.h"

namespace lily::gpu {

// Dispatches launches [begin, end) of a program with the barriers between them.
Result<void> dispatch(Emulator& emulator, const Program& program, std::size_t begin,
                      std::size_t end);

// The first launch that read or wrote what it did not declare, in words; none where all was
// declared. `records` are of an observing emulator, one for each launch of the program.
std::optional<std::string> undeclared(const Program& program,
                                      std::span<const DispatchRecord> records);

}  // namespace lily::gpu
