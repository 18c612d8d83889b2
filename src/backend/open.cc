// The one file that knows every backend.
#include <memory>

#include "backend/cpu/cpu_backend.h"
#include "backend/gpu/open.h"
#include "backend/ops.h"
#include "backend/reference/reference_backend.h"

namespace lily {

Result<std::unique_ptr<Backend>> open_backend(const std::string& name, const BackendOptions& options) {
  if (name == "emulator") return gpu::open_emulator(options);
  if (name == "metal") return gpu::open_metal(options);
  if (name == "cuda") return gpu::open_cuda(options);
  if (options.mechanisms != Mechanisms{}) {
    return Error{ErrorCode::kUnsupported, "mechanisms are those of a GPU; backend '" + name + "' has none to switch"};
  }
  if (name == "cpu") return cpu::open(options);
  if (name == "reference") return reference::open(options);
  return Error{ErrorCode::kInvalidArgument, "backend '" + name + "': expected cpu, metal, cuda, emulator or reference"};
}

}  // namespace lily
