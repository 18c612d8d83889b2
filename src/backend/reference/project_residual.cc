// project_residual: the product of the output projection, added to the residual stream.
#include "backend/reference/arithmetic.h"
#include "backend/reference/reference_backend.h"

namespace lily::reference {

void ReferenceBackend::project_residual(const ProjectResidualArgs& args) {
  const QuantMatrix& w = args.weight;
  std::vector<double> weights(static_cast<std::size_t>(w.cols));
  for (std::int64_t r = 0; r < w.rows; ++r) {
    dequantise_row(w, r, weights.data());
    for (std::int64_t t = 0; t < args.control->n_rows; ++t) {
      float& h = args.h[t * w.rows + r];
      h = static_cast<float>(static_cast<double>(h) +
                             dot(weights.data(), args.x + t * w.cols, w.cols));
    }
  }
}

}  // namespace lily::reference
