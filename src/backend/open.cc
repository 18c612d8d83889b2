// The one file that knows every backend.
#include <iterator>
#include <memory>

#include "backend/backends.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/gpu/open.h"
#include "backend/ops.h"
#include "backend/reference/reference_backend.h"

namespace lily {
namespace {

// "a, b or c"
std::string backend_choices() {
  std::string choices;
  for (const auto& name : kBackendNames) {
    const bool last = &name == std::end(kBackendNames) - 1;
    if (!choices.empty()) choices += last ? " or " : ", ";
    choices += name;
  }
  return choices;
}

}  // namespace

Result<std::unique_ptr<Backend>> open_backend(const std::string& name, const BackendOptions& wishes) {
  BackendOptions options = wishes;
  if (!options.mechanisms) options.mechanisms = default_mechanisms(name);
  if (name == "emulator") return gpu::open_emulator(options);
  if (name == "metal") return gpu::open_metal(options);
  if (name == "cuda") return gpu::open_cuda(options);
  if (options.mechanisms != Mechanisms{}) {
    return Error{ErrorCode::kUnsupported, "mechanisms are those of a GPU; backend '" + name + "' has none to switch"};
  }
  if (name == "cpu") return cpu::open(options);
  if (name == "reference") return reference::open(options);
  return Error{ErrorCode::kInvalidArgument, "backend '" + name + "': expected " + backend_choices()};
}

}  // namespace lily
