// Facts and compiling. Nothing here ends at the first failure: a report tells all of them.
#include "backend/gpu/metal/acceptance.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>

#include "backend/gpu/metal/pipelines.h"
#include "backend/gpu/metal/sources.h"

namespace lily::gpu::metal {
namespace {

struct Family {
  long value;  // MTLGPUFamily
  const char* name;
};
constexpr Family kFamilies[] = {{1005, "Apple5"}, {1006, "Apple6"}, {1007, "Apple7"},
                                {1008, "Apple8"}, {1009, "Apple9"}, {1010, "Apple10"},
                                {5001, "Metal3"}, {5002, "Metal4"}};

Result<SystemDevice> open_system_device() {
  SystemDevice device;
  if (device) return device;
  return Error{ErrorCode::kUnsupported, "Metal: this machine has no GPU that it drives"};
}

std::set<std::string> kernel_files() {
  std::set<std::string> files;
  for (const Kernel& kernel : kernels()) files.insert(file_of(kernel.name));
  return files;
}

// The pipelines of a file's kernels; the first error is kept.
void build_pipelines(const SystemDevice& device, const Library& library, Compiled& row) {
  for (const Kernel& kernel : kernels()) {
    if (file_of(kernel.name) != row.file) continue;
    const auto pipeline = make_pipeline(device, library, kernel);
    if (pipeline) ++row.n_kernels;
    if (!pipeline && row.error.empty()) row.error = pipeline.error().message;
  }
}

Compiled compile_row(const SystemDevice& device, const std::string& file, const Language& language,
                     TileUnits units) {
  Compiled row{.file = file, .language = language.name};
  if (units == TileUnits::kTensorOperations) row.language += ", tensor operations";
  const auto start = std::chrono::steady_clock::now();
  const auto library = compile(device, file, language, units);
  if (library) build_pipelines(device, *library, row);
  if (!library) row.error = library.error().message;
  row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return row;
}

}  // namespace

Result<MachineFacts> machine_facts() {
  const Pool pool;
  LILY_TRY(const auto device, open_system_device());
  MachineFacts facts{.gpu = device.name(),
                     .max_buffer_bytes = device.max_buffer_bytes(),
                     .working_set_bytes = device.working_set_bytes()};
  for (const Family& family : kFamilies)
    if (device.supports(family.value)) facts.families.push_back(family.name);
  for (const Language& language : kLanguages)
    if (os_at_least(language.os_major)) facts.languages.push_back(language.name);
  return facts;
}

Result<std::vector<Compiled>> compile_everything() {
  const Pool pool;
  LILY_TRY(const auto device, open_system_device());
  std::vector<Compiled> rows;
  for (const Language& language : kLanguages) {
    for (const std::string& file : kernel_files()) {
      const Pool of_file;
      rows.push_back(compile_row(device, file, language, TileUnits::kSimdgroupMatrices));
      // The other form of the tile layer, where the file has one.
      const bool tiles =
          flatten(bundled_sources(), file).value().find(" tile_mma(sums") != std::string::npos;
      if (tiles && language.os_major >= 26)
        rows.push_back(compile_row(device, file, language, TileUnits::kTensorOperations));
    }
  }
  return rows;
}

}  // namespace lily::gpu::metal
