// Asking the system about itself.
#include "cli/machine.h"

#include <unistd.h>

#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "base/cores.h"
#include "base/env.h"
#include "engine/plan.h"

namespace lily::cli {
namespace {

#if defined(__APPLE__)

std::string cpu_name() {
  char name[256] = {};
  std::size_t size = sizeof name - 1;
  if (sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) != 0) return "";
  return name;
}

#else

constexpr std::size_t kMaxCpuInfoBytes = 16u << 20;

// The first value of a field of /proc/cpuinfo.
std::string field_of(const std::string& text, std::string_view name) {
  const auto field = text.find(name);
  const auto colon = field == std::string::npos ? field : text.find(": ", field);
  if (colon == std::string::npos) return "";
  return text.substr(colon + 2, text.find('\n', colon) - colon - 2);
}

// Linux on ARM has numbers for a name.
std::string cpu_name() {
  const auto text = read_file("/proc/cpuinfo", kMaxCpuInfoBytes);
  if (!text) return "";
  if (auto name = field_of(*text, "model name"); !name.empty()) return name;
  const auto maker = field_of(*text, "CPU implementer"), part = field_of(*text, "CPU part");
  return part.empty() ? "" : "ARM processor of maker " + maker + ", part " + part;
}

#endif

// The folder itself, or the nearest one above it that exists.
Path existing_part(Path folder) {
  std::error_code failed;
  while (!folder.empty() && !std::filesystem::exists(folder, failed) &&
         folder != folder.parent_path())
    folder = folder.parent_path();
  return folder;
}

}  // namespace

Machine describe_machine() {
  Machine out;
  out.cpu = cpu_name();
  out.cores = usable_cores();
  out.memory_bytes = machine_memory_bytes();
  out.cache_folder = env::cache_folder();
  const Path there = existing_part(out.cache_folder);
  if (there.empty()) return out;
  out.cache_writable = ::access(there.c_str(), W_OK | X_OK) == 0;
  std::error_code failed;
  const auto space = std::filesystem::space(there, failed);
  if (!failed) out.disk_free_bytes = space.available;
  return out;
}

namespace {

// "VmRSS:     123 kB" of /proc/self/status.
std::uint64_t status_bytes(const std::string& status, std::string_view field) {
  const auto at = status.find(field);
  return at == std::string::npos
             ? 0
             : std::strtoull(status.c_str() + at + field.size(), nullptr, 10) * 1024;
}

}  // namespace

ProcessMemory process_memory() {
  const auto status = read_file("/proc/self/status", kMaxCpuInfoBytes);
  if (!status) return {};
  return {status_bytes(*status, "VmRSS:"), status_bytes(*status, "RssAnon:")};
}

}  // namespace lily::cli
