// Memory for an image that lies in no file.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"

namespace lily {

// Zeroed, at the start of a page, in large pages where the system has them.
Result<std::shared_ptr<void>> anonymous_memory(std::size_t bytes);

}  // namespace lily
