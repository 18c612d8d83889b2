// embed: the table's row of each token, dequantised.
#include "backend/reference/arithmetic.h"
#include "backend/reference/reference_backend.h"

namespace lily::reference {

void ReferenceBackend::embed(const EmbedArgs& args) {
  std::vector<double> row(static_cast<std::size_t>(args.table.cols));
  for (std::int64_t t = 0; t < args.control->n_rows; ++t) {
    dequantise_row(args.table, args.control->tokens[t], row.data());
    for (int i = 0; i < args.table.cols; ++i) {
      args.h[t * args.table.cols + i] = static_cast<float>(row[static_cast<std::size_t>(i)]);
    }
  }
}

}  // namespace lily::reference
