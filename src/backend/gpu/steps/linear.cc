// Launches of linear_few and linear_tile.
#include "backend/gpu/steps/linear.h"

#include <algorithm>
#include <string>

#include "backend/gpu/steps/matrix.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {
namespace {

constexpr int kFewGroupRows = 8, kTileGroupRows = 64, kTileRows = 32;  // Weight rows, rows of x.

LinearParams make_params(const LinearInput& in, std::initializer_list<LinearOutput> out) {
  LILY_CHECK(out.size() >= 1 && out.size() <= 4);
  LinearParams params{};
  params.control = words_of(in.control);
  params.x = in.x;
  params.norm = in.norm;
  params.cols = static_cast<unsigned>(out.begin()->matrix.cols);
  params.head = in.head_from >= 0;
  params.first = static_cast<unsigned>(std::max(in.head_from, 0));
  params.most = kMaxPassRows;
  params.eps = in.eps;
  unsigned i = 0;
  for (const auto& [matrix, y] : out) {
    LILY_CHECK(static_cast<unsigned>(matrix.cols) == params.cols);
    const auto m = matrix_of(matrix);
    params.parts[i++] = {m.codes, m.scales, m.biases, y, static_cast<unsigned>(matrix.rows),
                         m.bits};
  }
  return params;
}

unsigned blocks_of(std::initializer_list<LinearOutput> out, int rows) {
  unsigned n = 0;
  for (const auto& part : out) n += groups_of(part.matrix.rows, rows);
  return n;
}

struct LinearRanges {
  Range x, norm, parts[4][3], y[4];
};

void launch(Recorder& to, const std::string& kernel, const LinearParams& params, Grid grid,
            unsigned threads, const LinearInput& in, const LinearRanges& r) {
  const auto& p = r.parts;
  // Sums that are added to read what they write.
  const auto old = [&](int i) { return in.norm == nullptr ? r.y[i] : Range{}; };
  to.launch(kernel, params, grid, threads,
            {range(in.control), r.x, r.norm, p[0][0], p[0][1], p[0][2], p[1][0], p[1][1], p[1][2],
             p[2][0], p[2][1], p[2][2], p[3][0], p[3][1], p[3][2], old(0), old(1), old(2), old(3)},
            {r.y[0], r.y[1], r.y[2], r.y[3]});
}

LinearRanges ranges_of(const Recorder& to, const LinearInput& in, int n_rows, int cols,
                       std::initializer_list<LinearOutput> out) {
  LinearRanges r{};
  r.x = range(in.x, times(to.rows_bound(), cols));
  r.norm = range(in.norm, times(cols, 1));
  int i = 0;
  for (const auto& [matrix, y] : out) {
    r.parts[i][0] = codes(matrix);
    r.parts[i][1] = scales(matrix);
    r.parts[i][2] = biases(matrix);
    r.y[i++] = range(y, times(n_rows, matrix.rows));
  }
  return r;
}

}  // namespace

LinearWay linear_way(const Recorder& to) {
  return to.rows_bound() <= kFewRows ? LinearWay::kRows : LinearWay::kTiles;
}

int head_block_bound(const Recorder& to, int first) {
  LILY_CHECK(first >= 0 && first < to.rows_bound());
  return std::min(kHeadBlockRows, to.rows_bound() - first);
}

void record_linear(Recorder& to, LinearWay way, const LinearInput& in,
                   std::initializer_list<LinearOutput> out) {
  const int n_rows = in.head_from >= 0 ? head_block_bound(to, in.head_from) : to.rows_bound();
  LinearParams params = make_params(in, out);
  const LinearRanges ranges = ranges_of(to, in, n_rows, static_cast<int>(params.cols), out);
  const std::string kind = in.norm != nullptr ? "norm" : "add";
  if (way != LinearWay::kTiles) {
    const int at_most = way == LinearWay::kEither ? std::min(n_rows, kFewRows) : n_rows;
    const int rows = at_most <= 1 ? 1 : at_most <= 2 ? 2 : at_most <= 4 ? 4 : 8;
    if (way == LinearWay::kEither) params.most = kFewRows;
    launch(to, std::string("linear_few_").append(kind).append("_").append(std::to_string(rows)),
           params, {blocks_of(out, kFewGroupRows), groups_of(at_most, rows)}, 64, in, ranges);
  }
  if (way == LinearWay::kTiles || (way == LinearWay::kEither && n_rows > kFewRows)) {
    params.least = way == LinearWay::kEither ? kFewRows + 1 : 0;
    params.most = kMaxPassRows;
    launch(to, std::string("linear_tile_").append(kind), params,
           {blocks_of(out, kTileGroupRows), groups_of(n_rows, kTileRows)}, 128, in, ranges);
  }
}

}  // namespace lily::gpu
