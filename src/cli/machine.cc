// Asking the system about itself.
#include "cli/machine.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "base/cores.h"
#include "base/env.h"
#include "base/processor.h"
#include "engine/plan.h"

namespace lily::cli {
namespace {

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
  out.cpu = processor_name();
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

constexpr std::size_t kMaxStatusBytes = 1u << 20;

// "VmRSS:     123 kB" of /proc/self/status.
std::uint64_t status_bytes(const std::string& status, std::string_view field) {
  const auto at = status.find(field);
  return at == std::string::npos
             ? 0
             : std::strtoull(status.c_str() + at + field.size(), nullptr, 10) * 1024;
}

}  // namespace

ProcessMemory process_memory() {
  const auto status = read_file("/proc/self/status", kMaxStatusBytes);
  if (!status) return {};
  return {status_bytes(*status, "VmRSS:"), status_bytes(*status, "RssAnon:")};
}

}  // namespace lily::cli
