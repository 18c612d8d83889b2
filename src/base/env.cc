// The only file that calls getenv.
#include "base/env.h"

#include <cstdlib>
#include <string>

namespace lily::env {
namespace {

std::string get(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

std::filesystem::path cache_folder() {
  if (const auto own = get("LILY_CACHE"); !own.empty()) return own;
  if (const auto xdg = get("XDG_CACHE_HOME"); !xdg.empty()) return std::filesystem::path(xdg) / "lily";
  const auto home = get("HOME");
  if (home.empty()) return {};
#ifdef __APPLE__
  return std::filesystem::path(home) / "Library/Caches/lily";
#else
  return std::filesystem::path(home) / ".cache/lily";
#endif
}

bool no_color() { return !get("NO_COLOR").empty(); }

}  // namespace lily::env
