// usable_cores(): what the affinity mask, the topology and the control group leave of the machine.
#include "base/cores.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "base/control_group.h"

#if defined(__linux__)
#include <sched.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace lily {
namespace {

int at_least_one(int n) {
  return std::max(n, 1);
}

#if defined(__linux__)

int read_number(const std::string& path, int otherwise) {
  std::ifstream in(path);
  int n = 0;
  return in >> n ? n : otherwise;
}

// Distinct (package, core) pairs among the CPUs of the affinity mask.
int cores_of_mask() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) {
    return static_cast<int>(std::thread::hardware_concurrency());
  }
  std::set<std::pair<int, int>> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<std::size_t>(cpu), &mask)) continue;
    const auto folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    // Where there is no topology every CPU counts as a core of its own.
    cores.emplace(read_number(folder + "physical_package_id", -1),
                  read_number(folder + "core_id", 1000 + cpu));
  }
  return static_cast<int>(cores.size());
}

int quota_cores(int otherwise) {
  const double cpus = control_group_cpus();
  return cpus > 0 ? static_cast<int>(std::ceil(std::min(cpus, 4096.0))) : otherwise;
}

#endif

}  // namespace

int usable_cores() {
#if defined(__linux__)
  const int cores = cores_of_mask();
  return at_least_one(std::min(cores, quota_cores(cores)));
#elif defined(__APPLE__)
  int cores = 0;
  std::size_t size = sizeof cores;
  if (sysctlbyname("hw.perflevel0.physicalcpu", &cores, &size, nullptr, 0) != 0) {
    cores = static_cast<int>(std::thread::hardware_concurrency());
  }
  return at_least_one(cores);
#else
  return at_least_one(static_cast<int>(std::thread::hardware_concurrency()));
#endif
}

}  // namespace lily
