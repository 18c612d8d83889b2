// Rules, tried in order at each launch. A rule that does not know the shapes leaves the launch as
// it is.
#include "backend/gpu/cuda/lowering.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "backend/gpu/cuda/kernels/delta_params.h"
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

template <typename T>
T args_of(const Launch& launch) {
  T args;
  LILY_CHECK(launch.args.size() == sizeof args);
  std::memcpy(&args, launch.args.data(), sizeof args);
  return args;
}
template <typename T>
std::vector<std::byte> bytes_of(const T& args) {
  const auto bytes = std::as_bytes(std::span(&args, 1));
  return {bytes.begin(), bytes.end()};
}

// Quads of four weight rows as cuda/kernels/int8_rows.h has them in shared memory.
unsigned quad_bytes(unsigned cols, unsigned bits) {
  return 4 * (cols * bits / 8 + 2 * cols / 32);
}
unsigned x_bytes(unsigned cols, unsigned bits) {
  return cols * bits / 128 * (bits == 4 ? 80 : 48);
}

// 16-byte steps of a lane over a row of codes; 0: no kernel is made for it.
unsigned steps_of(unsigned cols, unsigned bits) {
  const unsigned runs = cols * bits / 128;
  if (cols % 256 != 0) return 0;
  return runs <= 32 ? 1 : runs == 64 ? 2 : runs == 128 ? 4 : 0;
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

  void take(std::size_t n_launches, Node node) {
    node.barrier_before = at_ > 0 && program_.barrier_before(at_);
    nodes_.push_back(std::move(node));
    at_ += n_launches;
  }
  // A node more for the launches taken last.
  void also(Node node) {
    node.barrier_before = true;
    nodes_.push_back(std::move(node));
  }
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

bool Lowering::delta() {
  if (!run_of({"gdn_prepare", "gdn_scan_few"})) return false;
  DeltaStepParams params{.prepare = args_of<GdnPrepareParams>(launch()),
                         .scan = args_of<GdnScanParams>(launch(1)),
                         .fetch_early = 0,
                         .unused = 0};
  if (params.scan.n_value_heads != 2 * params.scan.n_key_heads) return false;
  // Copies of states are the only other launches that write them.
  const auto before = program_.launches().first(at_);
  params.fetch_early = std::none_of(before.begin(), before.end(), [](const Launch& l) {
    return std::string_view(l.kernel->name) == "copy";
  });
  take(2, {.own = "delta_step",
           .args = bytes_of(params),
           .grid = {params.scan.n_key_heads * 8, launch(1).grid.y, 1},
           .threads = 256,
           .waits = true});
  return true;
}

bool is_int4(const ExpertMatrix& m, unsigned cols) {
  return m.bits == 4 && m.cols == cols;
}

bool Lowering::routed() {
  if (!run_of({"route_choose", "experts_few_up", "experts_few_down"})) return false;
  const auto route = args_of<RouteChooseParams>(launch());
  const auto up = args_of<ExpertsUpParams>(launch(1));
  const auto down = args_of<ExpertsDownParams>(launch(2));
  const unsigned hidden = route.hidden, width = up.width, steps = steps_of(hidden, 4);
  const bool fits = route.n_experts <= 256 && hidden <= 2048 && (steps == 1 || steps == 2) &&
                    (width == 128 || width == 512) && up.shared_width == width &&
                    is_int4(up.gate, hidden) && is_int4(up.up, hidden) &&
                    is_int4(up.shared_gate, hidden) && is_int4(up.shared_up, hidden) &&
                    is_int4(down.down, width) && is_int4(down.shared_down, width);
  if (!fits) return false;
  const unsigned rows = launch().grid.x, places = up.n_chosen + 1;
  const unsigned up_groups = std::min(multiprocessors_, places * width / 2);
  const unsigned down_groups = std::max(std::min(multiprocessors_, hidden / 4), hidden / 16);
  const ExpertsUpInt8Params up_params{route, up};
  const ExpertsDownInt8Params down_params{route, down};
  take(2, {.own = steps == 1 ? "experts_int8_up_1" : "experts_int8_up_2",
           .args = bytes_of(up_params),
           .grid = {up_groups, rows, 1},
           .threads = kWarps * 32,
           .shared_bytes = kWarps * quad_bytes(hidden, 4) + x_bytes(hidden, 4),
           .waits = true});
  take(1, {.own = width == 128 ? "experts_int8_down_4" : "experts_int8_down_16",
           .args = bytes_of(down_params),
           .grid = {down_groups, rows, 1},
           .threads = kWarps * 32,
           .shared_bytes =
               kWarps * 2 * quad_bytes(width, 4) + x_bytes((places * width + 255) / 256 * 256, 4),
           .waits = true});
  return true;
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

bool Lowering::linear() {
  const FewName few = few_name(launch().kernel->name);
  if (!few.is || few.rows * launch().grid.y > kFewRows) return false;
  const auto params = args_of<LinearParams>(launch());
  const unsigned bits = params.parts[0].bits, cols = params.cols, steps = steps_of(cols, bits);
  unsigned quads = 0;
  for (const auto& part : params.parts) {
    if (part.rows > 0 && part.bits != bits) return false;
    quads += (part.rows + 3) / 4;
  }
  const bool made = bits == 4 ? (steps == 1 || steps == 2 || (steps == 4 && !few.norm))
                              : few.norm && (steps == 1 || steps == 4);
  if (!made || (few.norm && cols > 2048)) return false;
  static constexpr std::string_view kNorm4[] = {"linear_int8_norm_4_1", "linear_int8_norm_4_2"};
  static constexpr std::string_view kAdd4[] = {"linear_int8_add_4_1", "linear_int8_add_4_2",
                                               "linear_split_add_4"};
  static constexpr std::string_view kNorm8[] = {"linear_int8_norm_8_1", {}, "linear_split_norm_8"};
  const auto* names = bits == 8 ? kNorm8 : few.norm ? kNorm4 : kAdd4;
  const unsigned rows = few.rows * launch().grid.y;
  take(1, {.own = names[steps / 2],
           .args = bytes_of(params),
           .grid = {std::min(multiprocessors_, quads), 1, 1},
           .threads = kWarps * 32,
           .shared_bytes =
               kWarps * quad_bytes(steps == 4 ? cols / 4 : cols, bits) + rows * x_bytes(cols, bits),
           .waits = true});
  return true;
}

bool Lowering::head() {
  const std::string_view name = launch().kernel->name;
  if (name != "head_chunks_1" && name != "head_chunks_4") return false;
  const auto params = args_of<HeadChunksParams>(launch());
  const unsigned cols = params.linear.cols, steps = steps_of(cols, 4);
  if (params.linear.parts[0].bits != 4 || cols > 2048 || (steps != 1 && steps != 2)) return false;
  const unsigned rows = std::min(kFewRows, launch().grid.y * (name.back() == '1' ? 1u : 4u));
  take(1, {.own = steps == 1 ? "head_int8_1" : "head_int8_2",
           .args = bytes_of(params),
           .grid = {launch().grid.x, 1, 1},
           .threads = kHeadWarps * 32,
           .shared_bytes = kHeadWarps * 2 * quad_bytes(cols, 4) + rows * x_bytes(cols, 4),
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
unsigned ceil_div(unsigned n, unsigned by) {
  return (n + by - 1) / by;
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
  take(1, narrow(params.control, params.x, norm ? params.norm : nullptr, params.cols, params.eps,
                 rows));
  also({.own = norm ? "linear_wide_norm" : "linear_wide_add",
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
  take(1, narrow(params.control, params.x, params.norm, params.cols, params.eps, rows, true));
  also({.own = "route_wide",
        .args = bytes_of(wide),
        .grid = {ceil_div(rows, 64), tiles, 1},
        .threads = 256,
        .shared_bytes = wide_bytes(128)});
  return true;
}

bool Lowering::scan() {
  const Launch& l = launch();
  if (std::string_view(l.kernel->name) != "gdn_scan_many") return false;
  // Memory that nobody touches: a multiprocessor that has one group takes no second one.
  constexpr unsigned kRoom = 80 * 1024;
  take(1, {.own = "delta_scan",
           .args = l.args,
           .grid = {l.grid.x, 1, 1},
           .threads = 256,
           .shared_bytes = kRoom});
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
  take(4, {.own = "route_rows",
           .args = bytes_of(route),
           .grid = {ceil_div(rows, 8), 1, 1},
           .threads = 256});
  also({.own = "experts_order",
        .args = bytes_of(sort),
        .grid = {sort.n_experts, 1, 1},
        .threads = 256});
  const ExpertsUpWideParams wide{up, static_cast<const unsigned short*>(card_.narrow)};
  also({.own = "experts_wide_up",
        .args = bytes_of(wide),
        .grid = {ceil_div(2 * std::max(up.width, up.shared_width), kWideRows), height, 1},
        .threads = 256,
        .shared_bytes = wide_bytes(kWideRows)});
  also({.own = "experts_wide_down",
        .args = bytes_of(down),
        .grid = {ceil_div(hidden, kWideRows), height, 1},
        .threads = 256,
        .shared_bytes = wide_bytes(kWideRows)});
  return true;
}

}  // namespace

std::span<const OwnKernel> own_kernels() {
  static constexpr OwnKernel kKernels[] = {{"attention_merge_waiting", "waiting.cu"},
                                           {"attention_parts", "attention_parts.cu"},
                                           {"attention_wide", "attention_wide.cu"},
                                           {"choose_rows_waiting", "waiting.cu"},
                                           {"choose_stats_waiting", "waiting.cu"},
                                           {"delta_scan", "delta_scan.cu"},
                                           {"delta_step", "delta_step.cu"},
                                           {"experts_int8_down_4", "experts_int8.cu"},
                                           {"experts_int8_down_16", "experts_int8.cu"},
                                           {"experts_int8_up_1", "experts_int8.cu"},
                                           {"experts_int8_up_2", "experts_int8.cu"},
                                           {"experts_order", "route_rows.cu"},
                                           {"experts_wide_down", "experts_wide.cu"},
                                           {"experts_wide_up", "experts_wide.cu"},
                                           {"head_int8_1", "head_int8.cu"},
                                           {"head_int8_2", "head_int8.cu"},
                                           {"linear_int8_add_4_1", "linear_int8.cu"},
                                           {"linear_int8_add_4_2", "linear_int8.cu"},
                                           {"linear_split_add_4", "linear_split.cu"},
                                           {"linear_int8_norm_4_1", "linear_int8.cu"},
                                           {"linear_int8_norm_4_2", "linear_int8.cu"},
                                           {"linear_int8_norm_8_1", "linear_int8.cu"},
                                           {"linear_split_norm_8", "linear_split.cu"},
                                           {"linear_wide_add", "linear_wide.cu"},
                                           {"linear_wide_norm", "linear_wide.cu"},
                                           {"narrow", "narrow.cu"},
                                           {"route_rows", "route_rows.cu"},
                                           {"route_wide", "route_wide.cu"}};
  return kKernels;
}

std::vector<Node> lower(const Program& program, const Card& card) {
  return Lowering(program, card).run();
}

}  // namespace lily::gpu::cuda
