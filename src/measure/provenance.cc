// Asking build, system and backend.
#include "measure/provenance.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/cores.h"
#include "base/processor.h"
#include "engine/plan.h"
#include "measure/commit.h"

namespace lily {
namespace {

std::string compiler() {
#if defined(__clang__)
  return __VERSION__;  // Says its own name.
#else
  return "GCC " __VERSION__;
#endif
}

std::string system_name() {
  utsname system{};
  if (uname(&system) != 0) return "";
  return fmt::format("{} {} {}", system.sysname, system.release, system.machine);
}

std::string megahertz(double hz) {
  return hz > 0 ? fmt::format(", {:.0f} MHz", hz / 1e6) : "";
}

}  // namespace

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32] = "";
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Provenance provenance_here(const BackendInfo* backend, std::vector<std::string> options) {
  Provenance out{.version = LILY_VERSION,
                 .commit = std::string(built_commit()),
                 .compiler = compiler(),
                 .date = utc_now(),
                 .processor = processor_name(),
                 .system = system_name(),
                 .cores = usable_cores(),
                 .memory_bytes = machine_memory_bytes(),
                 .processor_hz = processor_hz(),
                 .options = std::move(options)};
  if (backend == nullptr) return out;
  out.backend = backend->name;
  out.description = backend->description;
  out.device_hz = backend->clock_hz;
  out.device_memory_hz = backend->memory_clock_hz;
  return out;
}

std::string provenance_json(const Provenance& p) {
  nlohmann::ordered_json out = {{"version", p.version},
                                {"commit", p.commit},
                                {"compiler", p.compiler},
                                {"date", p.date},
                                {"processor", p.processor},
                                {"system", p.system},
                                {"cores", p.cores},
                                {"memory_bytes", p.memory_bytes},
                                {"processor_hz", p.processor_hz},
                                {"backend", p.backend},
                                {"description", p.description},
                                {"device_hz", p.device_hz},
                                {"device_memory_hz", p.device_memory_hz},
                                {"options", p.options}};
  nlohmann::ordered_json known = nlohmann::ordered_json::object();
  for (const auto& [name, value] : out.items()) {
    if (!value.empty() && value != "" && value != 0) known[name] = value;
  }
  return known.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string provenance_text(const Provenance& p) {
  std::string text = fmt::format("Lily {} ({}, {}), {}\n", p.version, p.commit, p.compiler, p.date);
  text += fmt::format(
      "{}{}, {} cores, {:.1f} GB, {}\n", p.processor.empty() ? "unknown processor" : p.processor,
      megahertz(p.processor_hz), p.cores, static_cast<double>(p.memory_bytes) / 1e9, p.system);
  if (p.backend.empty()) return text;
  return text + fmt::format("{}: {}{}{}\n", p.backend, p.description, megahertz(p.device_hz),
                            p.device_memory_hz > 0
                                ? ", memory" + megahertz(p.device_memory_hz).substr(1)
                                : "");
}

}  // namespace lily
