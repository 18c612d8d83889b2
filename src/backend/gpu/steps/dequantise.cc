// Launch of dequantise, and its scratch.
#include "backend/gpu/steps/dequantise.h"

#include <algorithm>

#include "backend/gpu/kernels/dequantise_params.h"
#include "backend/gpu/steps/matrix.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {

// Eight experts' gate and up: 32 MiB of the 35B, and its widest projection.
std::size_t dequantised_weights(const ModelSpec& spec) {
  return 16 * times(spec.hidden, std::max(spec.expert_width, spec.shared_width));
}

std::size_t dequantise_scratch_bytes(const ModelSpec& spec, const Mechanisms& mechanisms) {
  return mechanisms.dequantise_in_tile ? 0 : round_up(2 * dequantised_weights(spec), kSectionAlign);
}

QuantMatrix rows_of(const QuantMatrix& m, int first, int n) {
  LILY_CHECK(first >= 0 && n >= 0 && first + n <= m.rows);
  QuantMatrix part = m;
  const std::size_t before = times(first, m.cols), groups = before / kQuantGroup;
  part.codes =
      static_cast<const std::byte*>(m.codes) + before * static_cast<std::size_t>(m.bits) / 8;
  part.scales = m.scales + groups;
  part.biases = m.biases + groups;
  part.rows = n;
  return part;
}

QuantMatrix record_dequantise(Recorder& to, const PassControl* control, const QuantMatrix& m,
                              std::size_t at, int head_rows) {
  const std::size_t n = times(m.rows, m.cols), all = dequantised_weights(to.spec());
  LILY_CHECK(at + n <= all);
  auto* const out = to.scratch_of<std::uint16_t>("dequantised weights", all) + at;
  const ExpertMatrix from = matrix_of(m);
  const DequantiseParams params{.control = words_of(control),
                                .codes = from.codes,
                                .scales = from.scales,
                                .biases = from.biases,
                                .out = out,
                                .rows = static_cast<unsigned>(m.rows),
                                .cols = from.cols,
                                .bits = from.bits,
                                .head_rows = static_cast<unsigned>(head_rows)};
  const std::size_t words = n * from.bits / 128;
  to.launch("dequantise", params, {static_cast<unsigned>((words + 127) / 128)}, 128,
            {range(control), codes(m), scales(m), biases(m)}, {range(out, n)});
  return {.codes = out,
          .scales = nullptr,
          .biases = nullptr,
          .rows = m.rows,
          .cols = m.cols,
          .bits = 16,
          .layout = m.layout};
}

}  // namespace lily::gpu
