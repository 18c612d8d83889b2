// The table of kernels: the two builds of each, joined. See kernel.h and list.h.
#include <algorithm>
#include <iterator>

#include "backend/gpu/kernel.h"
#include "backend/gpu/kernels/list.h"

#define LILY_DECLARE(name, file) extern const lily::gpu::KernelEntry plain_##name, observed_##name;
LILY_GPU_KERNELS(LILY_DECLARE)

namespace lily::gpu {
namespace {

// Functions of plain entries are filled in when the table is first asked for: entries of other
// files are not constant here.
std::span<const Kernel> make_table() {
#if defined(LILY_GPU_BOTH_KINDS)
#define LILY_OBSERVED(kernel) observed_##kernel.run
#else
#define LILY_OBSERVED(kernel) nullptr
#endif
#define LILY_ROW(kernel, file)                                                         \
  {plain_##kernel.name,        plain_##kernel.args_bytes, plain_##kernel.shared_bytes, \
   plain_##kernel.max_threads, plain_##kernel.run,        LILY_OBSERVED(kernel)},
  static const Kernel table[] = {LILY_GPU_KERNELS(LILY_ROW)};
  return table;
}

}  // namespace

std::span<const Kernel> kernels() {
  static const std::span<const Kernel> table = make_table();
  return table;
}

const Kernel* find_kernel(std::string_view name) {
  const auto all = kernels();
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const Kernel& k) { return k.name == name; });
  return at == all.end() ? nullptr : &*at;
}

std::string_view kernel_file(std::string_view name) {
#define LILY_FILE(kernel, file) \
  if (name == #kernel) return file;
  LILY_GPU_KERNELS(LILY_FILE)
  return {};
}

}  // namespace lily::gpu
