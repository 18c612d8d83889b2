// Loading compiled files and finding the kernels in them.
#include "backend/gpu/cuda/modules.h"

#include <fmt/format.h>

#include <algorithm>

namespace lily::gpu::cuda {
namespace {

constexpr int kOwnCapability = 90;  // Hopper.

Error refused(std::string_view kernel, const std::string& why) {
  return {ErrorCode::kDevice, fmt::format("CUDA kernel '{}': {}", kernel, why)};
}

bool is_compiled(std::string_view file) {
  const auto files = compiled_files();
  return std::any_of(files.begin(), files.end(),
                     [&](const CompiledFile& f) { return f.file == file; });
}

}  // namespace

Modules::~Modules() {
  const Driver& cu = context_->use();
  if (card_.narrow != nullptr) cu.cuMemFree(reinterpret_cast<CUdeviceptr>(card_.narrow));
  for (const auto& [file, module] : modules_) cu.cuModuleUnload(module);
}

Result<CUmodule> Modules::module_of(std::string_view file) {
  if (const auto loaded = modules_.find(file); loaded != modules_.end()) return loaded->second;
  const auto files = compiled_files();
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const CompiledFile& f) { return f.file == file; });
  if (found == files.end()) {
    return Error{ErrorCode::kDevice,
                 fmt::format("CUDA: '{}' was not compiled into this program", file)};
  }
  const Driver& cu = context_->use();
  CUmodule module = nullptr;
  const CUresult result = cu.cuModuleLoadData(&module, found->code);
  if (result != CUDA_SUCCESS) {
    return cu.error(
        result,
        fmt::format("loading the kernels of {} on {} (compute capability {}.{})", file,
                    context_->name(), context_->capability() / 10, context_->capability() % 10));
  }
  modules_.emplace(file, module);
  return module;
}

Result<Modules::Function> Modules::function_of(CUmodule module, std::string_view name) const {
  const Driver& cu = context_->use();
  Function found{};
  int max_threads = 0;
  CUresult result = cu.cuModuleGetFunction(&found.function, module, std::string(name).c_str());
  if (result == CUDA_SUCCESS) {
    result = cu.cuFuncGetAttribute(&max_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                   found.function);
  }
  if (result != CUDA_SUCCESS) return cu.error(result, fmt::format("kernel '{}'", name));
  found.max_threads = static_cast<unsigned>(max_threads);
  return found;
}

Result<void> Modules::load(std::span<const Kernel> kernels) {
  for (const Kernel& kernel : kernels) {
    const std::string_view file = kernel_file(kernel.name);
    if (file.empty()) return refused(kernel.name, "no file of kernels/list.h holds it");
    LILY_TRY(const CUmodule module, module_of(file));
    LILY_TRY(const Function function, function_of(module, kernel.name));
    functions_.insert_or_assign(kernel.name, function);
  }
  const bool own = context_->capability() == kOwnCapability && is_compiled(own_kernels()[0].file);
  return own && card_.multiprocessors == 0 ? load_own() : Result<void>{};
}

Result<void> Modules::load_own() {
  const Driver& cu = context_->use();
  LILY_TRY(const int most,
           context_->attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  for (const OwnKernel& kernel : own_kernels()) {
    LILY_TRY(const CUmodule module, module_of(kernel.file));
    LILY_TRY(const Function function, function_of(module, kernel.name));
    int fixed = 0;
    LILY_RETURN_IF_ERROR(cu.check(
        cu.cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function.function),
        "asking for a kernel's memory"));
    LILY_RETURN_IF_ERROR(cu.check(
        cu.cuFuncSetAttribute(function.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                              most - fixed),
        "giving a kernel memory"));
    // A kernel that wants another split between cache and shared memory than the one before it
    // cannot start while that runs.
    if (kernel.waits) {
      LILY_RETURN_IF_ERROR(
          cu.check(cu.cuFuncSetAttribute(function.function,
                                         CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                         CU_SHAREDMEM_CARVEOUT_MAX_SHARED),
                   "giving a kernel memory"));
    }
    functions_.insert_or_assign(std::string(kernel.name), function);
  }
  LILY_TRY(const int count, context_->attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  CUdeviceptr narrow = 0;
  LILY_RETURN_IF_ERROR(cu.check(cu.cuMemAlloc(&narrow, kNarrowBytes), "allocating activations"));
  card_ = {.multiprocessors = static_cast<unsigned>(count),
           .narrow = reinterpret_cast<void*>(narrow)};
  return {};
}

Result<CUfunction> Modules::find(const Node& node) const {
  const auto found = functions_.find(kernel_name(node));
  if (found == functions_.end()) return refused(kernel_name(node), "not loaded");
  if (node.threads <= found->second.max_threads) return found->second.function;
  return refused(kernel_name(node),
                 fmt::format("a launch has {} threads a group, this GPU takes {}", node.threads,
                             found->second.max_threads));
}

}  // namespace lily::gpu::cuda
