// Time and names.
#include "server/service.h"

#include <unistd.h>

#include <array>
#include <chrono>

#include "base/random.h"

namespace lily::server {

std::int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string new_id(std::string_view prefix) {
  static const std::uint64_t start =
      static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  static std::atomic<std::uint64_t> count{0};
  const std::uint64_t n = count.fetch_add(1);
  const auto drawn =
      philox4x32({static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32),
                  static_cast<std::uint32_t>(::getpid()), 1},
                 {static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(start >> 32)});
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out(prefix);
  for (std::size_t word = 0; word < 3; ++word) {
    for (int shift = 28; shift >= 0; shift -= 4) out += kDigits[(drawn[word] >> shift) & 15];
  }
  return out;
}

}  // namespace lily::server
