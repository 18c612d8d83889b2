// The kernels, compiled when the program was built, as functions of the card.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/gpu/cuda/context.h"
#include "backend/gpu/cuda/lowering.h"
#include "backend/gpu/kernel.h"

namespace lily::gpu::cuda {

// Machine code for several generations and portable code for the rest, of one file of kernels/; of
// cuda/kernels/, for those that it is written for.
struct CompiledFile {
  std::string_view file;  // "embed.cc"
  const void* code;
};
// The kernel that a node runs.
inline std::string_view kernel_name(const Node& node) {
  return node.own.empty() ? node.shared->name : node.own;
}

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
  Result<CUfunction> find(const Node& node) const;
  const Card& card() const { return card_; }

 private:
  struct Function {
    CUfunction function;
    unsigned max_threads;
  };
  Result<CUmodule> module_of(std::string_view file);
  Result<Function> function_of(CUmodule module, std::string_view name) const;
  Result<void> load_own();

  std::shared_ptr<Context> context_;
  std::map<std::string, CUmodule, std::less<>> modules_;    // By file.
  std::map<std::string, Function, std::less<>> functions_;  // By kernel.
  Card card_;
};

}  // namespace lily::gpu::cuda
