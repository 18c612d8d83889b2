// Asking the system about the processor.
#include "base/processor.h"

#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include <cstdlib>
#include <string_view>

#include "base/file.h"

namespace lily {

#if defined(__APPLE__)

std::string processor_name() {
  char name[256] = {};
  std::size_t size = sizeof name - 1;
  if (sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) != 0) return "";
  return name;
}

double processor_hz() {
  return 0;
}

#else

namespace {

constexpr std::size_t kMaxCpuInfoBytes = 16u << 20;

std::string cpu_info() {
  auto text = read_file("/proc/cpuinfo", kMaxCpuInfoBytes);
  return text ? *std::move(text) : "";
}

// The first value of a field.
std::string field_of(const std::string& text, std::string_view name) {
  const auto field = text.find(name);
  const auto colon = field == std::string::npos ? field : text.find(": ", field);
  if (colon == std::string::npos) return "";
  return text.substr(colon + 2, text.find('\n', colon) - colon - 2);
}

}  // namespace

// Linux on ARM has numbers for a name.
std::string processor_name() {
  const std::string text = cpu_info();
  if (auto name = field_of(text, "model name"); !name.empty()) return name;
  const auto maker = field_of(text, "CPU implementer"), part = field_of(text, "CPU part");
  return part.empty() ? "" : "ARM processor of maker " + maker + ", part " + part;
}

double processor_hz() {
  const auto scaled =
      read_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", kMaxCpuInfoBytes);
  if (scaled) return std::strtod(scaled->c_str(), nullptr) * 1e3;  // kHz
  return std::strtod(field_of(cpu_info(), "cpu MHz").c_str(), nullptr) * 1e6;
}

#endif

}  // namespace lily
