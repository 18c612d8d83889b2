// Compiling, file by file, and what is said when it fails.
#include "backend/gpu/metal/pipelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "backend/gpu/metal/sources.h"

namespace lily::gpu::metal {
namespace {

Error refused(const Kernel& kernel, const std::string& why) {
  return {ErrorCode::kDevice, fmt::format("Metal kernel '{}': {}", kernel.name, why)};
}

// Every rounding as the kernels write it; nothing assumed about NaN and infinity.
CompileOptions compile_options(const Language& language) {
  CompileOptions options;
  options.language(language.version);
  options.math_mode(kMathSafe);
  options.math_functions(kFunctionsPrecise);
  return options;
}

}  // namespace

const Language* newest_language() {
  const auto found = std::find_if(std::begin(kLanguages), std::end(kLanguages),
                                  [](const Language& l) { return os_at_least(l.os_major); });
  return found == std::end(kLanguages) ? nullptr : found;
}

std::string file_of(std::string_view kernel) {
  const std::string_view file = kernel_file(kernel);
  if (file.empty()) return {};
  return std::string("backend/gpu/kernels/").append(file);
}

Result<Library> compile(const SystemDevice& device, std::string_view file, const Language& language,
                        TileUnits units) {
  LILY_TRY(auto source, flatten(bundled_sources(), file));
  if (units == TileUnits::kTensorOperations) source.insert(0, "#define LILY_METAL_TENSOR_OPS 1\n");
  Id error = nullptr;
  Library library = device.library(source, compile_options(language), error);
  if (library) return library;
  return Error{ErrorCode::kDevice,
               fmt::format("compiling {} as Metal {}: {}", file, language.name, error_text(error))};
}

Result<Pipeline> make_pipeline(const SystemDevice& device, const Library& library,
                               const Kernel& kernel) {
  const Ref function = library.function(kernel.name);
  if (!function) return refused(kernel, "its library has no function of this name");
  Id error = nullptr;
  Pipeline pipeline = device.pipeline(function, error);
  if (!pipeline) return refused(kernel, error_text(error));
  if (pipeline.simd_width() == kSimdLanes) return pipeline;
  return refused(
      kernel, fmt::format("{} lanes a simdgroup, expected {}", pipeline.simd_width(), kSimdLanes));
}

Result<void> Pipelines::load(const SystemDevice& device, const Language& language,
                             std::span<const Kernel> kernels) {
  std::map<std::string, Library> libraries;
  for (const Kernel& kernel : kernels) {
    const std::string file = file_of(kernel.name);
    if (file.empty()) return refused(kernel, "no file of kernels/list.h holds it");
    auto library = libraries.find(file);
    if (library == libraries.end()) {
      LILY_TRY(auto compiled, compile(device, file, language));
      library = libraries.emplace(file, std::move(compiled)).first;
    }
    LILY_TRY(auto pipeline, make_pipeline(device, library->second, kernel));
    const std::size_t max_threads = pipeline.max_threads();
    loaded_.insert_or_assign(kernel.name, Loaded{std::move(pipeline), max_threads});
  }
  return {};
}

Result<Id> Pipelines::find(const Kernel& kernel, unsigned threads) const {
  const auto found = loaded_.find(kernel.name);
  if (found == loaded_.end()) return refused(kernel, "not loaded");
  if (threads <= found->second.max_threads) return found->second.pipeline.id();
  return refused(kernel, fmt::format("a launch has {} threads a group, this GPU takes {}", threads,
                                     found->second.max_threads));
}

}  // namespace lily::gpu::metal
