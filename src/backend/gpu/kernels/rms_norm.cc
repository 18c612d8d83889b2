// y = x / sqrt(mean(x^2) + eps) * norm, row by row.
// Grid: a group per row, any number of threads; a thread takes every threads-th element.
// Traffic: x twice (the second time from cache), norm and y once.
#include "backend/gpu/kernels/rms_norm_params.h"

#include "backend/gpu/dialect/dialect.h"

struct RmsNormShared {
  float parts[32];
};

KERNEL(rms_norm, RmsNormParams, RmsNormShared, 1024) {
  DEV const float* x = a.x + (ulong)id.group.x * a.n;
  DEV float* y = a.y + (ulong)id.group.x * a.n;
  float sum = 0.0f;
  for (uint i = id.tid; i < a.n; i += id.threads) sum = m_fma(x[i], x[i], sum);
  const float scale = m_rsqrt(group_sum(sum, sm.parts, id) / (float)a.n + a.eps);
  for (uint i = id.tid; i < a.n; i += id.threads) y[i] = x[i] * scale * a.norm[i];
}
