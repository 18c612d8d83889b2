// Every environment variable that Lily reads, in one place: the ecosystem's own and diagnostics, nothing else.
#pragma once

#include <filesystem>

namespace lily::env {

// LILY_CACHE, else $XDG_CACHE_HOME/lily, else ~/.cache/lily (~/Library/Caches/lily on macOS); empty when there is no home.
std::filesystem::path cache_folder();

// NO_COLOR is set to anything but the empty string (no-color.org).
bool no_color();

}  // namespace lily::env
