// What all steps together need of the backend's scratch.
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {

std::size_t scratch_bytes(const ModelSpec& spec, int max_rows, const Mechanisms& mechanisms) {
  return attention_prepare_scratch_bytes(spec, max_rows) + attention_scratch_bytes(spec, max_rows) +
         route_scratch_bytes(spec, max_rows) + experts_sort_scratch_bytes(spec, max_rows) +
         experts_down_scratch_bytes(spec, max_rows) + experts_apart_scratch_bytes(spec, max_rows) +
         vocabulary_scratch_bytes(spec, max_rows) + dequantise_scratch_bytes(spec, mechanisms);
}

}  // namespace lily::gpu
