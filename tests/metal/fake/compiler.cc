// What the stand-in asks of a kernel file's text.
#include "tests/metal/fake/compiler.h"

#include "tests/metal/fake/machine.h"

namespace lily::fake_metal {
namespace {

std::string name_after(const std::string& source, std::size_t at) {
  const std::size_t end = source.find_first_of(",)", at);
  return source.substr(at, end - at);
}

std::set<std::string> kernel_names(const std::string& source) {
  constexpr std::string_view kStart = "\nKERNEL(";
  std::set<std::string> names;
  for (auto at = source.find(kStart); at != source.npos; at = source.find(kStart, at + 1))
    names.insert(name_after(source, at + kStart.size()));
  return names;
}

bool language_is_known(std::size_t version) {
  const auto major = static_cast<long>(version >> 16), minor = static_cast<long>(version & 0xffff);
  const long os = machine().os_major;
  const long newest = os >= 27 ? 41 : os >= 26 ? 40 : os >= 15 ? 32 : 31;
  const long asked = 10 * major + minor;
  return asked <= newest && (asked == 41 || asked == 40 || (asked >= 30 && asked <= 32));
}

// Empty: nothing is wrong.
std::string complaint(const std::string& source, const FakeCompileOptions& options) {
  if (!language_is_known(options.language)) return "unknown language version";
  if (options.math_mode != 0 || options.math_functions != 1)
    return "the kernels are written for safe mathematics and precise functions";
  if (source.find("#include \"") != source.npos) return "program_source: a file is not found";
  if (source.find("#include <metal_stdlib>") == source.npos)
    return "program_source: unknown type name 'uint'";
  const std::string refused = faults().compiling;
  if (!refused.empty() && source.find(refused) != source.npos)
    return "program_source:7:1: error: unknown type name '" + refused + "'";
  return {};
}

}  // namespace

Methods compile_options_factory() {
  return Methods().add("new", [](Object*, Selector) -> Object* { return new FakeCompileOptions; });
}

FakeLibrary* make_library(const std::string& source, const FakeCompileOptions& options,
                          std::string& error) {
  error = complaint(source, options);
  return error.empty() ? new FakeLibrary(kernel_names(source)) : nullptr;
}

FakePipeline* make_pipeline(const FakeFunction& function, std::string& error) {
  const Faults now = faults();
  const gpu::Kernel* kernel = function.kernel;
  if (now.pipeline == kernel->name) {
    error = "Compiler encountered an internal error";
    return nullptr;
  }
  return new FakePipeline(kernel, now.few_threads == kernel->name ? 32 : kernel->max_threads);
}

const Methods& FakeCompileOptions::methods() const {
  using Options = FakeCompileOptions;
  static const Methods table =
      Methods()
          .add("setLanguageVersion:",
               [](Options* self, Selector, std::size_t v) { self->language = v; })
          .add("setMathMode:", [](Options* self, Selector, long mode) { self->math_mode = mode; })
          .add("setMathFloatingPointFunctions:",
               [](Options* self, Selector, long kind) { self->math_functions = kind; });
  return table;
}

const Methods& FakeLibrary::methods() const {
  static const Methods table = Methods().add(
      "newFunctionWithName:", [](FakeLibrary* self, Selector, String* name) -> Object* {
        const gpu::Kernel* kernel = gpu::find_kernel(name->text);
        const bool has =
            self->names.contains(name->text) && faults().missing_function != name->text;
        return has && kernel != nullptr ? new FakeFunction(kernel) : nullptr;
      });
  return table;
}

const Methods& FakeFunction::methods() const {
  static const Methods none;
  return none;
}

const Methods& FakePipeline::methods() const {
  static const Methods table =
      Methods()
          .add("maxTotalThreadsPerThreadgroup",
               [](FakePipeline* self, Selector) { return self->max_threads; })
          .add("threadExecutionWidth",
               [](FakePipeline*, Selector) { return machine().simd_width; });
  return table;
}

}  // namespace lily::fake_metal
