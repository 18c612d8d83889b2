// Which instruction sets there are, which of them this processor has, and the choice among them.
#include "backend/cpu/kernels.h"

#include <array>

#include "base/arm_features.h"

namespace lily::cpu {
namespace {

struct Isa {
  std::string_view name;
  bool (*supported)();
  const Kernels& (*kernels)();
};

#if defined(__x86_64__)
// The compiler's answer takes into account whether the system saves the wide registers.
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
         __builtin_cpu_supports("avx512vnni") != 0;
}
#endif

// Best first.
constexpr std::array kIsas = {
#if defined(__x86_64__)
    Isa{"avx512", has_avx512, kernels_avx512},
    Isa{"avx2",
        [] { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; },
        kernels_avx2},
#elif defined(__aarch64__)
    Isa{"neon-i8mm", [] { return arm_has_dotprod() && arm_has_i8mm(); }, kernels_neon_i8mm},
    Isa{"neon", arm_has_dotprod, kernels_neon},
#endif
    Isa{"portable", [] { return true; }, kernels_portable},
};

std::string isa_names() {
  std::string names;
  for (const auto& isa : kIsas) names += (names.empty() ? "" : ", ") + std::string(isa.name);
  return names;
}

}  // namespace

std::vector<const Kernels*> supported_kernels() {
  std::vector<const Kernels*> out;
  for (const auto& isa : kIsas) {
    if (isa.supported()) out.push_back(&isa.kernels());
  }
  return out;
}

Result<const Kernels*> choose_kernels(const std::string& name) {
  for (const auto& isa : kIsas) {
    if (!name.empty() && isa.name != name) continue;
    if (isa.supported()) return &isa.kernels();
    if (!name.empty()) {
      return Error{ErrorCode::kUnsupported,
                   "instruction set '" + name + "': this processor does not have it"};
    }
  }
  return Error{ErrorCode::kInvalidArgument,
               "instruction set '" + name + "': expected one of " + isa_names()};
}

}  // namespace lily::cpu
