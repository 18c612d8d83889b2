// Libraries and pipelines of the stand-in.
#pragma once

#include <set>
#include <string>

#include "backend/gpu/kernel.h"
#include "tests/metal/fake/runtime.h"

namespace lily::fake_metal {

class FakeCompileOptions final : public Object {
 public:
  FakeCompileOptions() : Object("MTLCompileOptions") {}
  const Methods& methods() const override;
  std::size_t language = 0;
  long math_mode = 2, math_functions = 0;  // Fast: Metal's defaults.
};

class FakeLibrary final : public Object {
 public:
  explicit FakeLibrary(std::set<std::string> all) : Object("FakeLibrary"), names(std::move(all)) {}
  const Methods& methods() const override;
  const std::set<std::string> names;
};

class FakeFunction final : public Object {
 public:
  explicit FakeFunction(const gpu::Kernel* k) : Object("FakeFunction"), kernel(k) {}
  const Methods& methods() const override;
  const gpu::Kernel* const kernel;
};

class FakePipeline final : public Object {
 public:
  FakePipeline(const gpu::Kernel* k, std::size_t threads)
      : Object("FakePipeline"), kernel(k), max_threads(threads) {}
  const Methods& methods() const override;
  const gpu::Kernel* const kernel;
  const std::size_t max_threads;
};

// Null with an error. The text is not compiled: tests/gpu/lint does that with another compiler. It
// must be whole (no file left to include), for a language that the system has, in safe mathematics.
FakeLibrary* make_library(const std::string& source, const FakeCompileOptions& options,
                          std::string& error);
FakePipeline* make_pipeline(const FakeFunction& function, std::string& error);

}  // namespace lily::fake_metal
