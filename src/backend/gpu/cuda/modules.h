// The kernels, compiled when the program was built, as functions of the card.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/gpu/cuda/context.h"
#include "backend/gpu/kernel.h"

namespace lily::gpu::cuda {

// Machine code for several generations and portable code for the rest, of one file of kernels/.
struct CompiledFile {
  std::string_view file;  // "embed.cc"
  const void* code;
};
// Made by the build (CMakeLists.txt).
std::span<const CompiledFile> compiled_files();

class Modules {
 public:
  explicit Modules(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  ~Modules();
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  // kDevice names the kernel that failed.
  Result<void> load(std::span<const Kernel> kernels);
  // The function for launches of this many threads.
  Result<CUfunction> find(const Kernel& kernel, unsigned threads) const;

 private:
  struct Function {
    CUfunction function;
    unsigned max_threads;
  };
  Result<CUmodule> module_of(std::string_view file);
  Result<Function> function_of(CUmodule module, const Kernel& kernel) const;

  std::shared_ptr<Context> context_;
  std::map<std::string, CUmodule, std::less<>> modules_;    // By file.
  std::map<std::string, Function, std::less<>> functions_;  // By kernel.
};

}  // namespace lily::gpu::cuda
