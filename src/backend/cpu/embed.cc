// embed: the table's row of each token, dequantised.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"

namespace lily::cpu {

void CpuBackend::embed(const EmbedArgs& args) {
  constexpr std::int64_t kTaskRows = 8;  // So few are not worth a hand-over.
  const QuantMatrix& table = args.table;
  const std::int64_t n = args.control->n_rows, groups = table.cols / kQuantGroup;
  const std::size_t block_bytes = record_bytes(table.bits) * static_cast<std::size_t>(groups);
  pool_.parallel_for((n + kTaskRows - 1) / kTaskRows, [&](std::int64_t task) {
    for (auto i = task * kTaskRows; i < std::min(n, (task + 1) * kTaskRows); ++i) {
      const auto token = static_cast<std::size_t>(args.control->tokens[i]);
      const auto* block =
          static_cast<const std::byte*>(table.codes) + block_bytes * (token / kBlockRows);
      kernels_.linear.dequantise(block, groups, table.bits, static_cast<int>(token % kBlockRows),
                                 args.h + i * table.cols);
    }
  });
}

}  // namespace lily::cpu
