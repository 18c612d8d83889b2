// Fingerprints and checksums: xxh3, 64 bits. They notice damage and change; they do not withstand a
// forger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lily {

std::uint64_t checksum(std::span<const std::byte> bytes);

// Sixteen hexadecimal digits.
std::string hex(std::uint64_t value);

// The checksum of parts, each with its length, so that ("ab", "c") differs from ("a", "bc").
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text.data(), text.size()))); }
  void add(std::uint64_t number) { add(std::as_bytes(std::span(&number, 1))); }
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lily
