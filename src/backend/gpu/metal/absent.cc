// Metal's place in builds for other systems than macOS.
#include "backend/gpu/metal/open.h"

namespace lily::gpu::metal {

Result<std::unique_ptr<Device>> open_device() {
  return Error{ErrorCode::kUnsupported, "this build has no Metal: it is part of macOS"};
}

}  // namespace lily::gpu::metal
