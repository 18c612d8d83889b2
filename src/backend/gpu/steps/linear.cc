// Launches of linear_few and linear_tile.
#include "backend/gpu/steps/linear.h"

#include <algorithm>
#include <string>
#include <vector>

#include "backend/gpu/steps/dequantise.h"
#include "backend/gpu/steps/matrix.h"
#include "backend/gpu/steps/steps.h"
#include "backend/gpu/steps/tiles.h"

namespace lily::gpu {
namespace {

constexpr int kFewGroupRows = 8;  // Weight rows of a group.
constexpr std::size_t kMaxParts = 4;

// A matrix, or some of its rows, and where its product goes: stride floats from row to row.
struct Part {
  QuantMatrix matrix;
  float* y;
  int stride;
};
using Parts = std::vector<Part>;

LinearParams make_params(const LinearInput& in, const Parts& parts) {
  LILY_CHECK(parts.size() >= 1 && parts.size() <= kMaxParts);
  LinearParams params{};
  params.control = words_of(in.control);
  params.x = in.x;
  params.norm = in.norm;
  params.cols = static_cast<unsigned>(parts[0].matrix.cols);
  params.head = in.head_from >= 0;
  params.first = static_cast<unsigned>(std::max(in.head_from, 0));
  params.most = kMaxPassRows;
  params.eps = in.eps;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [matrix, y, stride] = parts[i];
    LILY_CHECK(static_cast<unsigned>(matrix.cols) == params.cols);
    const auto m = matrix_of(matrix);
    params.parts[i] = {.codes = m.codes,
                       .scales = m.scales,
                       .biases = m.biases,
                       .y = y,
                       .rows = static_cast<unsigned>(matrix.rows),
                       .bits = m.bits,
                       .stride = static_cast<unsigned>(stride),
                       .unused = 0};
  }
  return params;
}

unsigned blocks_of(const Parts& parts, int rows) {
  unsigned n = 0;
  for (const auto& part : parts) n += groups_of(part.matrix.rows, rows);
  return n;
}

void launch(Recorder& to, const std::string& kernel, const LinearParams& params, Grid grid,
            unsigned threads, const LinearInput& in, const Parts& parts, int n_rows) {
  const int cols = static_cast<int>(params.cols);
  Range w[kMaxParts][3], y[kMaxParts];
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& part = parts[i];
    w[i][0] = codes(part.matrix);
    w[i][1] = scales(part.matrix);
    w[i][2] = biases(part.matrix);
    y[i] = range(part.y, times(n_rows - 1, part.stride) + times(part.matrix.rows, 1));
  }
  // Sums that are added to read what they write.
  const auto old = [&](int i) { return in.norm == nullptr ? y[i] : Range{}; };
  to.launch(kernel, params, grid, threads,
            {range(in.control), range(in.x, times(to.rows_bound(), cols)),
             range(in.norm, times(cols, 1)), w[0][0], w[0][1], w[0][2], w[1][0], w[1][1], w[1][2],
             w[2][0], w[2][1], w[2][2], w[3][0], w[3][1], w[3][2], old(0), old(1), old(2), old(3)},
            {y[0], y[1], y[2], y[3]});
}

void launch_tiles(Recorder& to, const LinearInput& in, const Parts& parts, int n_rows, int least) {
  const TileForm form = tile_form(to);
  LinearParams params = make_params(in, parts);
  params.least = static_cast<unsigned>(least);
  launch(
      to, std::string("linear_tile_").append(in.norm != nullptr ? "norm" : "add").append(form.name),
      params, {blocks_of(parts, form.cols), groups_of(n_rows, form.rows)}, 128, in, parts, n_rows);
}

// Weights written out first, as many rows at a time as fit.
void launch_dequantised(Recorder& to, const LinearInput& in, const Parts& parts, int n_rows,
                        int least) {
  const int cols = parts[0].matrix.cols, head_rows = least > 0 ? in.head_from + least : 0;
  const int fit = static_cast<int>(dequantised_weights(to.spec()) / times(cols, 1));
  LILY_CHECK(fit > 0);
  Parts held;
  int n_held = 0;
  const auto multiply = [&] {
    if (!held.empty()) launch_tiles(to, in, held, n_rows, least);
    held.clear();
    n_held = 0;
  };
  for (const auto& part : parts) {
    for (int first = 0, n = 0; first < part.matrix.rows; first += n) {
      if (n_held == fit || held.size() == kMaxParts) multiply();
      n = std::min(part.matrix.rows - first, fit - n_held);
      held.push_back({record_dequantise(to, in.control, rows_of(part.matrix, first, n),
                                        times(n_held, cols), head_rows),
                      part.y + first, part.stride});
      n_held += n;
    }
  }
  multiply();
}

}  // namespace

LinearWay linear_way(const Recorder& to) {
  return to.rows_bound() <= kFewRows ? LinearWay::kRows : LinearWay::kTiles;
}

int head_block_bound(const Recorder& to, int first) {
  LILY_CHECK(first >= 0 && first < to.rows_bound());
  return std::min(kHeadBlockRows, to.rows_bound() - first);
}

LinearParams linear_params(const LinearInput& in, const LinearOutput& out) {
  return make_params(in, {{out.matrix, out.y, out.matrix.rows}});
}

void record_linear(Recorder& to, LinearWay way, const LinearInput& in,
                   std::initializer_list<LinearOutput> out) {
  const int n_rows = in.head_from >= 0 ? head_block_bound(to, in.head_from) : to.rows_bound();
  Parts parts;
  for (const auto& [matrix, y] : out) parts.push_back({matrix, y, matrix.rows});
  if (way != LinearWay::kTiles) {
    const int at_most = way == LinearWay::kEither ? std::min(n_rows, kFewRows) : n_rows;
    const int rows = at_most <= 1 ? 1 : at_most <= 2 ? 2 : at_most <= 4 ? 4 : 8;
    LinearParams params = make_params(in, parts);
    if (way == LinearWay::kEither) params.most = kFewRows;
    const std::string kind = in.norm != nullptr ? "norm_" : "add_";
    launch(to, std::string("linear_few_").append(kind).append(std::to_string(rows)), params,
           {blocks_of(parts, kFewGroupRows), groups_of(at_most, rows)}, 64, in, parts, n_rows);
  }
  if (way == LinearWay::kTiles || (way == LinearWay::kEither && n_rows > kFewRows)) {
    const int least = way == LinearWay::kEither ? kFewRows + 1 : 0;
    const bool in_tile = to.mechanisms().dequantise_in_tile;
    (in_tile ? launch_tiles : launch_dequantised)(to, in, parts, n_rows, least);
  }
}

}  // namespace lily::gpu
