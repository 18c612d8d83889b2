// Rules, tried in order at each launch. A rule that does not know the shapes leaves the launch as
// it is.
#include "backend/gpu/cuda/lowering.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "backend/gpu/cuda/kernels/delta_params.h"
#include "backend/gpu/cuda/kernels/linear_mma_params.h"
#include "backend/gpu/cuda/kernels/route_params.h"
#include "backend/gpu/cuda/kernels/wide_params.h"
#include "backend/gpu/kernels/attention_few_params.h"
#include "backend/gpu/kernels/attention_params.h"
#include "backend/gpu/kernels/head_chunks_params.h"
#include "backend/gpu/kernels/linear_params.h"
#include "base/check.h"

namespace lily::gpu::cuda {
namespace {

constexpr unsigned kFewRows = 8, kWarps = 24, kHeadWarps = 8;

template <typename T, typename From>
T args_of(const From& launch_or_node) {
  T args;
  LILY_CHECK(launch_or_node.args.size() == sizeof args);
  std::memcpy(&args, launch_or_node.args.data(), sizeof args);
  return args;
}
template <typename T>
std::vector<std::byte> bytes_of(const T& args) {
  const auto bytes = std::as_bytes(std::span(&args, 1));
  return {bytes.begin(), bytes.end()};
}

// cuda/kernels/int8_rows.h: shared memory of a quad of weight rows and of a row of activations, and
// the 16-byte steps of a lane over a row of codes; 0: no kernel is made for it.
constexpr unsigned int8_quad_bytes(unsigned cols) {
  return 4 * (cols / 2 + 2 * cols / 32);
}
constexpr unsigned int8_row_bytes(unsigned cols) {
  return cols / 32 * 80;
}
constexpr unsigned int8_steps(unsigned cols) {
  if (cols % 256 != 0) return 0;
  return cols <= 1024 ? 1 : cols == 2048 ? 2 : 0;
}

// cuda/kernels/half_tiles.h: shared memory of a quad of weight rows and of a row of activations,
// and how many quads a group takes whose warps have so many tiles each.
constexpr unsigned kTileWarps = 16;
constexpr unsigned tile_quad_bytes(unsigned cols, unsigned bits) {
  return cols * bits / 2 + cols / 4 + 80;
}
constexpr unsigned tile_quads(unsigned cols, unsigned tiles) {
  return kTileWarps / (cols / 256) * tiles * 4;
}
unsigned ceil_div(unsigned n, unsigned by) {
  return (n + by - 1) / by;
}
constexpr unsigned tile_row_bytes(unsigned cols, unsigned bits) {
  const unsigned run = 128 / bits;
  return cols / run * (run * 4 + 16) + cols / 64 * 8;
}
// The copy engine takes 16 bytes and their multiples.
bool is_aligned(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

bool is_int4(const ExpertMatrix& m, unsigned cols) {
  return m.bits == 4 && m.cols == cols && is_aligned(m.codes) && is_aligned(m.scales) &&
         is_aligned(m.biases);
}

// The kernel of a product of few rows, without its steps.
struct FewName {
  bool is, norm;
  unsigned rows;
};
FewName few_name(std::string_view name) {
  const bool norm = name.starts_with("linear_few_norm_"), add = name.starts_with("linear_few_add_");
  return {norm || add, norm, static_cast<unsigned>(name.back() - '0')};
}

class Lowering {
 public:
  Lowering(const Program& program, const Card& card)
      : program_(program), card_(card), multiprocessors_(card.multiprocessors) {}

  std::vector<Node> run() {
    const std::size_t n = program_.launches().size();
    while (at_ < n) {
      if (multiprocessors_ > 0 &&
          (delta() || routed() || linear() || head() || attention() || waiting() ||
           linear_tiles() || expert_tiles() || router() || scan() || attention_tiles()))
        continue;
      const Launch& l = launch();
      take(1,
           {.own = {}, .shared = l.kernel, .args = l.args, .grid = l.grid, .threads = l.threads});
    }
    return std::move(nodes_);
  }

 private:
  const Launch& launch(std::size_t ahead = 0) const { return program_.launches()[at_ + ahead]; }

  // The next n launches are of these kernels, each between two barriers.
  bool run_of(std::initializer_list<std::string_view> names) const {
    std::size_t i = at_;
    for (const auto name : names) {
      if (i == program_.launches().size() || program_.launches()[i].kernel->name != name)
        return false;
      if (i != at_ && !program_.barrier_before(i)) return false;
      ++i;
    }
    const bool starts = at_ == 0 || program_.barrier_before(at_);
    return starts && (i == program_.launches().size() || program_.barrier_before(i));
  }

  // The next n launches become a node, which does their work.
  void take(std::size_t n_launches, Node node) {
    node.first = at_;
    node.n_launches = n_launches;
    node.barrier_before = at_ > 0 && program_.barrier_before(at_);
    nodes_.push_back(std::move(node));
    at_ += n_launches;
  }
  // A node before the launch that is taken next.
  void prepare(Node node) { take(0, std::move(node)); }
  // The same for one that depends on the node before it.
  void then_take(std::size_t n_launches, Node node) {
    take(n_launches, std::move(node));
    nodes_.back().barrier_before = true;
  }
  std::optional<Node> mma(const Launch& l, const float* head_squares, float head_eps) const;
  Node narrow(const int* control, const float* x, const float* norm, unsigned cols, float eps,
              unsigned rows, bool rest = false) const;
  unsigned short* narrow_rest() const {
    return static_cast<unsigned short*>(card_.narrow) + kNarrowBytes / 4;
  }

  bool delta();
  bool routed();
  bool linear();
  bool head();
  bool attention();
  bool waiting();
  bool linear_tiles();
  bool expert_tiles();
  bool router();
  bool scan();
  bool attention_tiles();

  const Program& program_;
  const Card& card_;
  const unsigned multiprocessors_;
  std::vector<Node> nodes_;
  std::size_t at_ = 0;
};

// The projection, convolution and delta rule, and the product of their output, which divides by the
// heads' root mean squares.
bool Lowering::delta() {
  if (at_ + 4 > program_.launches().size()) return false;
  if (!run_of({launch().kernel->name, "gdn_prepare", "gdn_scan_few", launch(3).kernel->name}))
    return false;
  const auto prepare = args_of<GdnPrepareParams>(launch(1));
  const auto scan = args_of<GdnScanParams>(launch(2));
  // q, which nobody else needs, has room for the squares.
  auto project = mma(launch(), nullptr, 0.0f), residual = mma(launch(3), prepare.q, scan.eps);
  if (!project || !residual || scan.n_value_heads != 2 * scan.n_key_heads) return false;
  const auto product = args_of<LinearMmaParams>(*project);
  const unsigned rows[] = {(2 * scan.n_key_heads + scan.n_value_heads) * 128,
                           scan.n_value_heads * 128, scan.n_value_heads, scan.n_value_heads};
  const float* const from[] = {prepare.qkv, scan.z, prepare.b, prepare.a};
  for (int i = 0; i < 4; ++i) {
    const LinearPart& part = product.linear.parts[i];
    if (part.rows != rows[i] || part.y != from[i]) return false;
  }
  if (args_of<LinearMmaParams>(*residual).linear.x != scan.y) return false;
  // Copies of states are the only other launches that write them.
  const auto before = program_.launches().first(at_);
  const bool early = std::none_of(before.begin(), before.end(), [](const Launch& l) {
    return std::string_view(l.kernel->name).starts_with("copy_");
  });
  const DeltaProjectParams project_params{product, prepare, scan.z_sigmoid, early};
  project->own = product.linear.cols == 256 ? "delta_project_256" : "delta_project_2048";
  project->args = bytes_of(project_params);
  const DeltaStepParams params{prepare, scan, prepare.q, early, 0};
  take(1, *project);
  take(2, {.own = "delta_step",
           .args = bytes_of(params),
           .grid = {scan.n_value_heads * 4, launch(1).grid.y, 1},
           .threads = 256,
           .waits = true});
  take(1, *residual);
  return true;
}

bool Lowering::routed() {
  if (!run_of({"route_choose", "experts_few_up", "experts_few_down"})) return false;
  const auto route = args_of<RouteChooseParams>(launch());
  const auto up = args_of<ExpertsUpParams>(launch(1));
  const auto down = args_of<ExpertsDownParams>(launch(2));
  const unsigned hidden = route.hidden, width = up.width, places = up.n_chosen + 1;
  const unsigned up_groups = std::min(multiprocessors_, places * width / 2),
                 down_groups = std::max(std::min(multiprocessors_, hidden / 4), hidden / 16),
                 up_quads = hidden == 2048 ? tile_quads(2048, 3) : tile_quads(256, 1);
  const bool fits =
      route.n_experts <= 256 && (hidden == 256 || hidden == 2048) &&
      (width == 128 || width == 512) && up.shared_width == width && is_int4(up.gate, hidden) &&
      is_int4(up.up, hidden) && is_int4(up.shared_gate, hidden) && is_int4(up.shared_up, hidden) &&
      is_int4(down.down, width) && is_int4(down.shared_down, width) && places <= 17 &&
      ceil_div(up.n_chosen * width / 2, up_groups) + ceil_div(width / 2, up_groups) <= up_quads;
  if (!fits) return false;
  const unsigned rows = launch().grid.x;
  const ExpertsUpMmaParams up_params{route, up};
  const ExpertsDownMmaParams down_params{route, down};
  take(2, {.own = hidden == 256 ? "experts_mma_up_256" : "experts_mma_up_2048",
           .args = bytes_of(up_params),
           .grid = {up_groups, rows, 1},
           .threads = kTileWarps * 32,
           .shared_bytes = up_quads * tile_quad_bytes(hidden, 4) + tile_row_bytes(hidden, 4),
           .waits = true});
  take(1, {.own = width == 128 ? "experts_mma_down_128" : "experts_mma_down_512",
           .args = bytes_of(down_params),
           .grid = {down_groups, rows, 1},
           .threads = kTileWarps * 32,
           .shared_bytes = places * 4 * tile_quad_bytes(width, 4) +
                           tile_row_bytes((places * width + 255) / 256 * 256, 4),
           .waits = true});
  return true;
}

// A product whose quads all have a warp at once. head_squares: as in LinearMmaParams.
std::optional<Node> Lowering::mma(const Launch& l, const float* head_squares,
                                  float head_eps) const {
  const FewName few = few_name(l.kernel->name);
  const unsigned rows = few.rows * l.grid.y;
  if (!few.is || rows > kFewRows) return std::nullopt;
  const LinearMmaParams params{args_of<LinearParams>(l), head_squares, head_eps, 0};
  const LinearParams& linear = params.linear;
  const bool heads = head_squares != nullptr;
  const unsigned cols = linear.cols, bits = linear.parts[0].bits;
  std::string_view name;
  if (few.norm && cols == 256) name = bits == 8 ? "linear_mma_norm8_256" : "linear_mma_norm_256";
  if (few.norm && cols == 2048) name = bits == 8 ? "linear_mma_norm8_2048" : "linear_mma_norm_2048";
  if (!few.norm && cols == 1024 && heads) name = "linear_mma_heads_1024";
  if (!few.norm && cols == 4096) name = heads ? "linear_mma_heads_4096" : "linear_mma_add_4096";
  if (name.empty()) return std::nullopt;
  unsigned quads = 0;
  for (const auto& part : linear.parts) {
    if (part.rows == 0) continue;
    // Of 8 bits the last part alone may have a quad that is not whole.
    const bool whole = part.rows % 4 == 0 || (bits == 8 && part.rows < 4);
    if (part.bits != bits || !whole || !is_aligned(part.codes) || !is_aligned(part.scales) ||
        !is_aligned(part.biases))
      return std::nullopt;
    quads += ceil_div(part.rows, 4);
  }
  if (quads == 0 || (bits != 4 && (bits != 8 || !few.norm))) return std::nullopt;
  const unsigned groups = std::min(multiprocessors_, quads),
                 most = bits == 8 ? 4 : tile_quads(cols, cols == 2048 ? 3 : 1);
  if (ceil_div(quads, groups) > std::min(most, kTileWarps * 8)) return std::nullopt;
  return Node{
      .own = name,
      .args = bytes_of(params),
      .grid = {groups, 1, 1},
      .threads = kTileWarps * 32,
      .shared_bytes = most * tile_quad_bytes(cols, bits) + rows * tile_row_bytes(cols, bits),
      .waits = true};
}

bool Lowering::linear() {
  if (const auto node = mma(launch(), nullptr, 0.0f)) {
    take(1, *node);
    return true;
  }
  const FewName few = few_name(launch().kernel->name);
  const unsigned rows = few.rows * launch().grid.y;
  if (!few.is || !few.norm || rows > kFewRows) return false;
  const auto params = args_of<LinearParams>(launch());
  const unsigned cols = params.cols, steps = int8_steps(cols);
  unsigned quads = 0;
  for (const auto& part : params.parts) {
    if (part.rows > 0 && part.bits != 4) return false;
    quads += ceil_div(part.rows, 4);
  }
  if (steps == 0) return false;
  take(1, {.own = steps == 1 ? "linear_int8_norm_1" : "linear_int8_norm_2",
           .args = bytes_of(params),
           .grid = {std::min(multiprocessors_, quads), 1, 1},
           .threads = kWarps * 32,
           .shared_bytes = kWarps * int8_quad_bytes(cols) + rows * int8_row_bytes(cols),
           .waits = true});
  return true;
}

bool Lowering::head() {
  const std::string_view name = launch().kernel->name;
  if (name != "head_chunks_1" && name != "head_chunks_4") return false;
  const auto params = args_of<HeadChunksParams>(launch());
  const unsigned cols = params.linear.cols, steps = int8_steps(cols);
  if (params.linear.parts[0].bits != 4 || steps == 0) return false;
  const unsigned rows = std::min(kFewRows, launch().grid.y * (name.back() == '1' ? 1u : 4u));
  take(1, {.own = steps == 1 ? "head_int8_1" : "head_int8_2",
           .args = bytes_of(params),
           .grid = {launch().grid.x, 1, 1},
           .threads = kHeadWarps * 32,
           .shared_bytes = kHeadWarps * 2 * int8_quad_bytes(cols) + rows * int8_row_bytes(cols),
           .waits = true});
  return true;
}

bool Lowering::attention() {
  if (std::string_view(launch().kernel->name) != "attention_few_4") return false;
  const auto params = args_of<AttentionFewParams>(launch());
  if (params.n_q_heads != 8 * params.n_kv_heads || params.scattered != 0) return false;
  take(1, {.own = "attention_parts",
           .args = bytes_of(params),
           .grid = {launch().grid.x, params.n_kv_heads, launch().grid.z},
           .threads = 128,
           .shared_bytes = 16 * 32 * 8 + 2 * 4 * 8 * 4 + 4 * 8 * 256 * 4,
           .waits = true});
  return true;
}

bool Lowering::waiting() {
  static constexpr std::string_view kNames[][2] = {{"attention_merge", "attention_merge_waiting"},
                                                   {"choose_stats", "choose_stats_waiting"},
                                                   {"choose_rows", "choose_rows_waiting"}};
  for (const auto& [shared, own] : kNames) {
    const Launch& l = launch();
    if (l.kernel->name != shared) continue;
    take(1, {.own = own, .args = l.args, .grid = l.grid, .threads = l.threads, .waits = true});
    return true;
  }
  return false;
}

constexpr unsigned kWideRows = 128;

// Shared memory of a product of so many rows: four stages of 64 columns, and room to align them.
constexpr unsigned wide_bytes(unsigned rows) {
  return 4 * rows * 128 + 1024;
}

Node Lowering::narrow(const int* control, const float* x, const float* norm, unsigned cols,
                      float eps, unsigned rows, bool rest) const {
  const NarrowParams params{.control = control,
                            .x = x,
                            .norm = norm,
                            .to = static_cast<unsigned short*>(card_.narrow),
                            .rest = rest ? narrow_rest() : nullptr,
                            .cols = cols,
                            .eps = eps};
  return {.own = "narrow", .args = bytes_of(params), .grid = {rows, 1, 1}, .threads = 256};
}

bool fits_wide(unsigned cols, unsigned bits) {
  return bits == 4 && cols % 128 == 0 && cols <= 4096;
}

bool Lowering::linear_tiles() {
  const std::string_view name = launch().kernel->name;
  const bool norm = name == "linear_tile_norm";
  if ((!norm && name != "linear_tile_add") || !run_of({name})) return false;
  const auto params = args_of<LinearParams>(launch());
  unsigned tiles = 0;
  for (const auto& part : params.parts) {
    if (part.rows > 0 && !fits_wide(params.cols, part.bits)) return false;
    tiles += ceil_div(part.rows, kWideRows);
  }
  if (params.head != 0) return false;
  const unsigned rows = launch().grid.y * 32;
  const LinearWideParams wide{params, static_cast<const unsigned short*>(card_.narrow), nullptr};
  prepare(narrow(params.control, params.x, norm ? params.norm : nullptr, params.cols, params.eps,
                 rows));
  then_take(1, {.own = norm ? "linear_wide_norm" : "linear_wide_add",
                .args = bytes_of(wide),
                .grid = {ceil_div(rows, kWideRows), tiles, 1},
                .threads = 256,
                .shared_bytes = wide_bytes(kWideRows)});
  return true;
}

bool Lowering::router() {
  const std::string_view name = launch().kernel->name;
  const unsigned rows = launch().grid.y * kFewRows;
  if (name != "linear_few_norm_8" || rows <= kFewRows || !run_of({name})) return false;
  const auto params = args_of<LinearParams>(launch());
  unsigned tiles = 0;
  for (const auto& part : params.parts) {
    if (part.rows > 0 && part.bits != 8) return false;
    tiles += ceil_div(part.rows, kWideRows);
  }
  if (params.head != 0 || params.cols % 128 != 0 || params.cols > 2048) return false;
  const LinearWideParams wide{params, static_cast<const unsigned short*>(card_.narrow),
                              narrow_rest()};
  prepare(narrow(params.control, params.x, params.norm, params.cols, params.eps, rows, true));
  then_take(1, {.own = "route_wide",
                .args = bytes_of(wide),
                .grid = {ceil_div(rows, 64), tiles, 1},
                .threads = 256,
                .shared_bytes = wide_bytes(128)});
  return true;
}

// In two: what depends on no state, for every chunk at once, and the states. q and k, which nobody
// else needs, have room for what goes between.
bool Lowering::scan() {
  if (!run_of({"gdn_scan_many", "gdn_norm"})) return false;
  const auto params = args_of<GdnScanParams>(launch());
  const unsigned heads = params.n_key_heads, values = params.n_value_heads / heads,
                 chunks = launch(1).grid.y / 64 + launch().grid.y;
  if (params.n_value_heads != values * heads || values > 2) return false;
  prepare({.own = "delta_chunks",
           .args = launch().args,
           .grid = {heads, chunks, 1},
           .threads = 256,
           .shared_bytes = kDeltaChunksBytes});
  then_take(1, {.own = "delta_scan",
                .args = launch().args,
                .grid = {launch().grid.x, 1, 1},
                .threads = 256,
                .shared_bytes = kDeltaScanBytes});
  return true;
}

bool Lowering::attention_tiles() {
  if (std::string_view(launch().kernel->name) != "attention_many") return false;
  const auto params = args_of<AttentionParams>(launch());
  if (params.n_q_heads != 8 * params.n_kv_heads) return false;
  // Segments cut into blocks of 16 rows where they were cut into blocks of 4: no more of them.
  take(1, {.own = "attention_wide",
           .args = bytes_of(params),
           .grid = launch().grid,
           .threads = 256,
           .shared_bytes = 65536 + 4 * 32768 + 1024});
  return true;
}

// The router, the choice, the sort and the experts of many rows.
bool Lowering::expert_tiles() {
  if (!run_of({"route_choose", "experts_sort", "experts_tile_up", "experts_tile_down"}))
    return false;
  const auto route = args_of<RouteChooseParams>(launch());
  auto sort = args_of<ExpertsSortParams>(launch(1));
  auto up = args_of<ExpertsUpParams>(launch(2));
  auto down = args_of<ExpertsDownParams>(launch(3));
  for (const ExpertMatrix* m :
       {&up.gate, &up.up, &up.shared_gate, &up.shared_up, &down.down, &down.shared_down}) {
    if (!fits_wide(m->cols, m->bits)) return false;
  }
  const bool is_narrow = !nodes_.empty() && nodes_.back().own == "route_wide";
  if (!is_narrow || route.n_experts > 256) return false;
  const unsigned rows = launch().grid.x, hidden = up.gate.cols;
  const unsigned blocks = rows * down.n_chosen / kWideRows + down.n_experts;
  sort.block_rows = kWideRows;
  for (ExpertBlocks* b : {&up.blocks, &down.blocks}) {
    b->n_blocks = blocks;
    b->block_rows = kWideRows;
  }
  const unsigned height = blocks + ceil_div(rows, kWideRows);
  take(1, {.own = "route_rows",
           .args = bytes_of(route),
           .grid = {ceil_div(rows, 8), 1, 1},
           .threads = 256});
  then_take(1, {.own = "experts_order",
                .args = bytes_of(sort),
                .grid = {sort.n_experts, 1, 1},
                .threads = 256});
  const ExpertsUpWideParams wide{up, static_cast<const unsigned short*>(card_.narrow)};
  then_take(1, {.own = "experts_wide_up",
                .args = bytes_of(wide),
                .grid = {ceil_div(2 * std::max(up.width, up.shared_width), kWideRows), height, 1},
                .threads = 256,
                .shared_bytes = wide_bytes(kWideRows)});
  then_take(1, {.own = "experts_wide_down",
                .args = bytes_of(down),
                .grid = {ceil_div(hidden, kWideRows), height, 1},
                .threads = 256,
                .shared_bytes = wide_bytes(kWideRows)});
  return true;
}

}  // namespace

std::span<const OwnKernel> own_kernels() {
  static constexpr OwnKernel kKernels[] = {{"attention_merge_waiting", "waiting.cu", true},
                                           {"attention_parts", "attention_parts.cu", true},
                                           {"attention_wide", "attention_wide.cu", false},
                                           {"choose_rows_waiting", "waiting.cu", true},
                                           {"choose_stats_waiting", "waiting.cu", true},
                                           {"delta_chunks", "delta_chunks.cu", false},
                                           {"delta_project_2048", "delta_project.cu", true},
                                           {"delta_project_256", "delta_project.cu", true},
                                           {"delta_scan", "delta_scan.cu", false},
                                           {"delta_step", "delta_step.cu", true},
                                           {"experts_mma_down_128", "experts_mma.cu", true},
                                           {"experts_mma_down_512", "experts_mma.cu", true},
                                           {"experts_mma_up_2048", "experts_mma.cu", true},
                                           {"experts_mma_up_256", "experts_mma.cu", true},
                                           {"experts_order", "route_rows.cu", false},
                                           {"experts_wide_down", "experts_wide.cu", false},
                                           {"experts_wide_up", "experts_wide.cu", false},
                                           {"head_int8_1", "head_int8.cu", true},
                                           {"head_int8_2", "head_int8.cu", true},
                                           {"linear_int8_norm_1", "linear_int8.cu", true},
                                           {"linear_int8_norm_2", "linear_int8.cu", true},
                                           {"linear_mma_add_4096", "linear_mma.cu", true},
                                           {"linear_mma_heads_1024", "linear_mma.cu", true},
                                           {"linear_mma_heads_4096", "linear_mma.cu", true},
                                           {"linear_mma_norm8_2048", "linear_mma.cu", true},
                                           {"linear_mma_norm8_256", "linear_mma.cu", true},
                                           {"linear_mma_norm_2048", "linear_mma.cu", true},
                                           {"linear_mma_norm_256", "linear_mma.cu", true},
                                           {"linear_wide_add", "linear_wide.cu", false},
                                           {"linear_wide_norm", "linear_wide.cu", false},
                                           {"narrow", "narrow.cu", false},
                                           {"route_rows", "route_rows.cu", false},
                                           {"route_wide", "route_wide.cu", false}};
  return kKernels;
}

std::vector<Node> lower(const Program& program, const Card& card) {
  const Card none;
  return Lowering(program, program.own_kernels() ? card : none).run();
}

}  // namespace lily::gpu::cuda
