// Kernels compiled from the bundled text, one library for each kernel file.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "backend/gpu/kernel.h"
#include "backend/gpu/metal/api.h"
#include "base/result.h"

namespace lily::gpu::metal {

struct Language {
  const char* name;
  std::size_t version;  // MTLLanguageVersion
  long os_major;        // The macOS that brought it.
};
// The first is the newest. The kernels keep to what the last has.
inline constexpr Language kLanguages[] = {
    {"4.1", (4 << 16) + 1, 27}, {"4.0", 4 << 16, 26}, {"3.2", (3 << 16) + 2, 15}};

// The newest that this system takes; null where it takes none.
const Language* newest_language();

// What the tile layer of the dialect is made of. The second is Metal 4's way to the matrix units of
// an M5; no Mac has compiled it yet, so the device takes the first.
enum class TileUnits { kSimdgroupMatrices, kTensorOperations };

// kDevice with the file, the language and the compiler's words.
Result<Library> compile(const SystemDevice& device, std::string_view file, const Language& language,
                        TileUnits units = TileUnits::kSimdgroupMatrices);
// kDevice names the kernel.
Result<Pipeline> make_pipeline(const SystemDevice& device, const Library& library,
                               const Kernel& kernel);
// The file that holds a kernel, as sources.h names it; empty for a kernel that is not in list.h.
std::string file_of(std::string_view kernel);

class Pipelines {
 public:
  Result<void> load(const SystemDevice& device, const Language& language,
                    std::span<const Kernel> kernels);
  // For a launch of so many threads; kDevice where the kernel was not loaded or takes fewer.
  Result<Id> find(const Kernel& kernel, unsigned threads) const;

 private:
  struct Loaded {
    Pipeline pipeline;
    std::size_t max_threads;
  };
  std::map<std::string_view, Loaded> loaded_;
};

}  // namespace lily::gpu::metal
