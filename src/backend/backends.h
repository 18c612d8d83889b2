// The names that open_backend() takes, in the order in which programs show them.
#pragma once

#include <string_view>

namespace lily {

inline constexpr std::string_view kBackendNames[] = {"cpu", "metal", "cuda", "emulator",
                                                     "reference"};

}  // namespace lily
