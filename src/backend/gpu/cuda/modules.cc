// Loading compiled files and finding the kernels in them.
#include "backend/gpu/cuda/modules.h"

#include <fmt/format.h>

#include <algorithm>

namespace lily::gpu::cuda {
namespace {

Error refused(const Kernel& kernel, const std::string& why) {
  return {ErrorCode::kDevice, fmt::format("CUDA kernel '{}': {}", kernel.name, why)};
}

}  // namespace

Modules::~Modules() {
  const Driver& cu = context_->use();
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

Result<Modules::Function> Modules::function_of(CUmodule module, const Kernel& kernel) const {
  const Driver& cu = context_->use();
  Function found{};
  int max_threads = 0;
  CUresult result = cu.cuModuleGetFunction(&found.function, module, kernel.name);
  if (result == CUDA_SUCCESS) {
    result = cu.cuFuncGetAttribute(&max_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                   found.function);
  }
  if (result != CUDA_SUCCESS) return cu.error(result, fmt::format("kernel '{}'", kernel.name));
  found.max_threads = static_cast<unsigned>(max_threads);
  return found;
}

Result<void> Modules::load(std::span<const Kernel> kernels) {
  for (const Kernel& kernel : kernels) {
    const std::string_view file = kernel_file(kernel.name);
    if (file.empty()) return refused(kernel, "no file of kernels/list.h holds it");
    LILY_TRY(const CUmodule module, module_of(file));
    LILY_TRY(const Function function, function_of(module, kernel));
    functions_.insert_or_assign(kernel.name, function);
  }
  return {};
}

Result<CUfunction> Modules::find(const Kernel& kernel, unsigned threads) const {
  const auto found = functions_.find(kernel.name);
  if (found == functions_.end()) return refused(kernel, "not loaded");
  if (threads <= found->second.max_threads) return found->second.function;
  return refused(kernel, fmt::format("a launch has {} threads a group, this GPU takes {}", threads,
                                     found->second.max_threads));
}

}  // namespace lily::gpu::cuda
