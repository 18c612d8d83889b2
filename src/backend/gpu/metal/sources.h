// The kernels' text inside the program: Metal compiles it when the device is opened, so no file and
// no developer tool is needed beside the program.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lily::gpu::metal {

struct SourceFile {
  std::string_view path;  // As in an include: "backend/gpu/kernels/embed.cc"
  std::string_view text;
};
// Kernel files and the parts of the dialect that Metal takes. Made by CMake (embed.cmake).
std::span<const SourceFile> bundled_sources();

// A kernel file with all that it includes, each header once. #line keeps the compiler's messages at
// the files as they are. Where an include names what is not bundled (the dialect's other front
// ends, behind conditions that Metal does not meet) stands an #error.
Result<std::string> flatten(std::span<const SourceFile> files, std::string_view path);

}  // namespace lily::gpu::metal
