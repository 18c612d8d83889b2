// embed: the table's row of each token, dequantised.
#include "backend/cpu/cpu_backend.h"

namespace lily::cpu {

void CpuBackend::embed(const EmbedArgs& args) {
  linear_.embed(args);
}

}  // namespace lily::cpu
