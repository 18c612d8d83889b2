// Reading /proc/self/cgroup and the limits of the groups that it names.
#include "base/control_group.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace lily {
namespace {

constexpr std::size_t kMaxFileBytes = 64u << 10;
constexpr std::uint64_t kNoLimit = 1ull << 60;  // Version 1 writes a huge number where there is none.

bool lists(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const auto comma = controllers.find(',');
    if (controllers.substr(0, comma) == wanted) return true;
    if (comma == std::string_view::npos) return false;
    controllers.remove_prefix(comma + 1);
  }
  return false;
}

// The group's folder and those above it up to `root`. A container may see paths of a tree that is not mounted in it: then the
// root alone exists, and it is the container's own group.
void add_folders(const Path& root, std::string_view group, std::vector<Path>& folders) {
  Path folder = root / Path(group).relative_path();
  for (; folder != root && folder != folder.parent_path(); folder = folder.parent_path()) folders.push_back(folder);
  folders.push_back(root);
}

// Folders whose limits hold for this process. A line is "0::/group" (version 2) or "4:memory,other:/group" (version 1).
std::vector<Path> folders_of(const ControlGroupPlaces& places, std::string_view controller) {
  std::vector<Path> folders;
  const auto text = read_file(places.membership, kMaxFileBytes);
  std::istringstream lines(text ? *text : std::string("0::/\n"));
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':'), second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const std::string_view group = std::string_view(line).substr(second + 1);
    if (controllers.empty()) add_folders(places.mounted, group, folders);
    if (lists(controllers, controller)) add_folders(places.mounted / controller, group, folders);
  }
  return folders;
}

// The whole numbers of a file, in order, up to the first word that is none ("max").
std::vector<std::int64_t> numbers_in(const Path& path) {
  std::vector<std::int64_t> numbers;
  const auto text = read_file(path, kMaxFileBytes);
  if (!text) return numbers;
  const char* at = text->data();
  const char* const end = at + text->size();
  for (std::int64_t n = 0; at < end;) {
    const auto [stop, failed] = std::from_chars(at, end, n);
    if (failed != std::errc()) break;
    numbers.push_back(n);
    at = std::find_if(stop, end, [](char c) { return c != ' ' && c != '\n'; });
  }
  return numbers;
}

}  // namespace

std::uint64_t control_group_memory(const ControlGroupPlaces& places) {
  std::uint64_t least = kNoLimit;
  for (const Path& folder : folders_of(places, "memory")) {
    for (const char* file : {"memory.max", "memory.limit_in_bytes"}) {
      const auto numbers = numbers_in(folder / file);
      if (!numbers.empty() && numbers[0] > 0) least = std::min(least, static_cast<std::uint64_t>(numbers[0]));
    }
  }
  return least == kNoLimit ? 0 : least;
}

double control_group_cpus(const ControlGroupPlaces& places) {
  double least = 0;
  const auto take = [&least](std::int64_t quota, std::int64_t period) {
    if (quota <= 0 || period <= 0) return;
    const double cpus = static_cast<double>(quota) / static_cast<double>(period);
    least = least > 0 ? std::min(least, cpus) : cpus;
  };
  for (const Path& folder : folders_of(places, "cpu")) {
    const auto both = numbers_in(folder / "cpu.max");
    if (both.size() == 2) take(both[0], both[1]);
    const auto quota = numbers_in(folder / "cpu.cfs_quota_us"), period = numbers_in(folder / "cpu.cfs_period_us");
    if (quota.size() == 1 && period.size() == 1) take(quota[0], period[0]);
  }
  return least;
}

}  // namespace lily
