// Rates with their units.
#include "cli/machine_limits.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace lily::cli {

std::string machine_limits_json(const MachineLimits& l) {
  const nlohmann::ordered_json out = {{"threads", l.threads},
                                      {"bytes", l.bytes},
                                      {"kernel", l.kernel},
                                      {"read_bytes_per_second_one_thread", l.read_one},
                                      {"read_bytes_per_second", l.read_all},
                                      {"multiply_adds_per_second_one_thread", l.integer_one},
                                      {"multiply_adds_per_second", l.integer_all}};
  return out.dump();
}

std::string machine_limits_table(const MachineLimits& l) {
  return fmt::format(
             "read rate     {:8.2f} GB/s one thread, {:.2f} GB/s {} threads (over {} MiB)\n",
             l.read_one / 1e9, l.read_all / 1e9, l.threads, l.bytes >> 20) +
         fmt::format(
             "integer rate  {:8.1f} G multiply-adds/s one thread, {:.1f} G/s {} threads ({})\n",
             l.integer_one / 1e9, l.integer_all / 1e9, l.threads, l.kernel);
}

}  // namespace lily::cli
