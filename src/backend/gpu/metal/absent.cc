// Metal's place in builds for other systems than macOS.
#include "backend/gpu/metal/acceptance.h"
#include "backend/gpu/metal/open.h"

namespace lily::gpu::metal {

namespace {

Error absent() {
  return {ErrorCode::kUnsupported, "this build has no Metal: it is part of macOS"};
}

}  // namespace

Result<std::unique_ptr<Device>> open_device() {
  return absent();
}

Result<MachineFacts> machine_facts() {
  return absent();
}

Result<std::vector<Compiled>> compile_everything() {
  return absent();
}

}  // namespace lily::gpu::metal
