// Memory for measuring: bytes that are sane numbers whatever they are taken for.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "backend/ops.h"
#include "base/result.h"

namespace lily {

// Every byte is 0x3b, 0x3c or 0x3d, at random: as bf16 and as float, numbers from 0.002 to 0.05; as
// codes, any. Pages that were never written are all one page of zeros, which no cache has to fetch.
Result<Buffer> plausible_buffer(Backend& backend, std::size_t bytes, std::string_view what);
std::vector<std::byte> plausible_bytes(std::size_t n);

}  // namespace lily
