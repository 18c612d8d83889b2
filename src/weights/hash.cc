// The one user of xxHash.
#include "weights/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "base/check.h"

namespace lily {

struct Hasher::State {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> xxh{XXH3_createState()};
};

std::uint64_t checksum(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

Hasher::Hasher() : state_(std::make_unique<State>()) {
  LILY_CHECK(state_->xxh);
  XXH3_64bits_reset(state_->xxh.get());
}

Hasher::~Hasher() = default;

void Hasher::add(std::span<const std::byte> bytes) {
  const std::uint64_t size = bytes.size();
  XXH3_64bits_update(state_->xxh.get(), &size, sizeof size);
  XXH3_64bits_update(state_->xxh.get(), bytes.data(), bytes.size());
}

std::uint64_t Hasher::value() const { return XXH3_64bits_digest(state_->xxh.get()); }

}  // namespace lily
