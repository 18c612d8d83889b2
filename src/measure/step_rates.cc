// Passes of one step each, or of the same step for several layers where one layer is too little to
// measure.
#include "measure/step_rates.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/random.h"
#include "base/stopwatch.h"
#include "measure/plausible_bytes.h"

namespace lily {
namespace {

constexpr double kEnoughSeconds = 0.5;  // A slow device repeats less.
constexpr int kMostLayers = 32;
constexpr int kLeastFoldRows = 256;

std::size_t size(int n) {
  return static_cast<std::size_t>(n);
}

// The names of what ran, each once.
std::string names_of(const std::vector<PieceTime>& pieces) {
  std::vector<std::string> names;
  for (const PieceTime& piece : pieces) {
    if (std::find(names.begin(), names.end(), piece.kernel) == names.end())
      names.push_back(piece.kernel);
  }
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// Passes whose keys differ by a number that no step looks at, run until they are known.
class Passes {
 public:
  Passes(Backend& backend, int repeats) : backend_(backend), repeats_(repeats) {}

  struct Time {
    double seconds = 0;   // Of the pass: by the device's clock, where it has one.
    double answered = 0;  // From submit to the end of the wait.
    std::string kernels;
  };
  // Behind one that does not count.
  Result<Time> time(int rows, const std::function<void()>& name_steps) {
    const PassKey key{.rows_bound = rows, .head_blocks = 1, .n_top = n_++};
    LILY_RETURN_IF_ERROR(run(key, name_steps));
    double best = 1e30, all = 0;
    for (int i = 0; i < repeats_ && all < kEnoughSeconds; ++i) {
      const Stopwatch watch;
      LILY_RETURN_IF_ERROR(run(key, name_steps));
      best = std::min(best, watch.seconds());
      all += watch.seconds();
    }
    if (!backend_.info().runs_ahead) return Time{best, best, ""};
    LILY_TRY(const auto times, backend_.time_last_pass(all < kEnoughSeconds ? repeats_ : 1));
    return Time{times.seconds, best, names_of(times.pieces)};
  }

 private:
  Result<void> run(const PassKey& key, const std::function<void()>& name_steps) {
    if (backend_.begin(key)) name_steps();
    return backend_.wait(backend_.submit());
  }

  Backend& backend_;
  int repeats_;
  int n_ = 0;
};

class StepRates {
 public:
  StepRates(Backend& backend, const ModelSpec& spec, const StepRatesRequest& request)
      : backend_(backend), spec_(spec), request_(request), passes_(backend, request.repeats) {}

  Result<std::vector<StepRate>> measure() {
    most_rows_ = std::max(1, request_.rows);
    LILY_RETURN_IF_ERROR(backend_.prepare(spec_, most_rows_));
    LILY_RETURN_IF_ERROR(allocate());
    LILY_RETURN_IF_ERROR(copy());
    LILY_RETURN_IF_ERROR(read());
    using Part = Result<void> (StepRates::*)();
    for (const int rows : {1, request_.rows}) {
      if (rows == 0) continue;
      LILY_RETURN_IF_ERROR(take_rows(rows));
      for (const Part part :
           {&StepRates::head, &StepRates::delta_projections, &StepRates::attention_projections,
            &StepRates::output_projections, &StepRates::experts}) {
        weights_.clear();
        matrices_.clear();
        LILY_RETURN_IF_ERROR((this->*part)());
      }
    }
    LILY_RETURN_IF_ERROR(attention());
    return std::move(rates_);
  }

 private:
  Result<float*> floats(std::size_t n) {
    LILY_TRY(auto buffer, plausible_buffer(backend_, n * sizeof(float), "activations"));
    buffers_.push_back(std::move(buffer));
    return buffers_.back().as<float>();
  }
  // One activation is as long as any step's.
  Result<void> allocate() {
    LILY_TRY(auto control, backend_.allocate(sizeof(PassControl), "control"));
    control_ = control.as<PassControl>();
    buffers_.push_back(control_buffer_ = std::move(control));
    const std::size_t widest =
        size(std::max({spec_.hidden, spec_.conv_dim(), 2 * spec_.q_dim(),
                       spec_.n_chosen * spec_.expert_width + spec_.shared_width}));
    const std::size_t logits = size(kHeadBlockRows) * size(spec_.vocab_rows);
    for (float** to : {&in_, &norm_}) {
      LILY_TRY(*to, floats(size(most_rows_) * widest));
    }
    for (float*& out : outs_) {
      LILY_TRY(out, floats(std::max(size(most_rows_) * widest, logits)));
    }
    LILY_TRY(auto sink, backend_.allocate(kFoldWords * sizeof(std::uint32_t), "what is read"));
    sink_ = sink.as<std::uint32_t>();
    buffers_.push_back(std::move(sink));
    return {};
  }
  // From now on passes have so many rows, the first of which is wanted of the head.
  Result<void> take_rows(int rows, int position = 0) {
    rows_ = rows;
    PassControl control{.n_rows = rows,
                        .n_segments = 1,
                        .n_head_rows = 1,
                        .reserved = 0,
                        .segments = {},
                        .tokens = {},
                        .head_rows = {}};
    control.segments[0] = {.first_row = 0,
                           .n_rows = rows,
                           .position = position,
                           .sequence = 0,
                           .state_in = -1,
                           .state_out = 0,
                           .snapshots = -1,
                           .reserved = 0};
    backend_.write(control_buffer_, 0, std::as_bytes(std::span(&control, 1)));
    return {};
  }
  Result<QuantMatrix> matrix(std::int64_t rows, int cols) {
    const WeightLayout layout = backend_.info().layout;
    const auto extent = quant_extent(layout, {rows, cols, 4});
    LILY_TRY(auto buffer, plausible_buffer(backend_, extent.bytes, "weights to measure with"));
    weights_.push_back(std::move(buffer));
    auto* const at = weights_.back().as<unsigned char>();
    const auto side = [&](std::size_t offset) {
      return offset == 0 ? nullptr : reinterpret_cast<std::uint16_t*>(at + offset);
    };
    matrices_.push_back({at, side(extent.scales), side(extent.biases),
                         static_cast<std::int32_t>(rows), cols, 4,
                         static_cast<std::uint32_t>(layout)});
    return matrices_.back();
  }
  std::uint64_t bytes_of(const QuantMatrix& m) const {
    return quant_extent(static_cast<WeightLayout>(m.layout), {m.rows, m.cols, m.bits}).bytes;
  }

  struct Work {
    std::uint64_t bytes = 0;
    double multiply_adds = 0;
  };
  // Of all matrices made for this step.
  Work products() const {
    Work work;
    for (const QuantMatrix& m : matrices_) {
      work.bytes += bytes_of(m);
      work.multiply_adds += static_cast<double>(rows_) * m.rows * m.cols;
    }
    return work;
  }
  Result<void> time(const std::string& step, int rows, const Work& work,
                    const std::function<void()>& name_steps) {
    LILY_TRY(auto took, passes_.time(std::max(rows, 1), name_steps));
    rates_.push_back(
        {step, std::move(took.kernels), rows, work.bytes, work.multiply_adds, took.seconds});
    return {};
  }
  // The same matrices, read alone: those of a layer side by side, layer after layer. A few rows
  // that share a launch with many would take one of their own here, and are left out.
  Result<void> fold(const std::string& step, std::size_t matrices_a_layer) {
    if (!request_.folds || rows_ > 1) return {};
    std::vector<FoldArgs> folds;
    std::uint64_t bytes = 0;
    std::int64_t words = 0;
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      const QuantMatrix& m = matrices_[i];
      if (i % matrices_a_layer == 0) words = 0;
      if (m.rows < kLeastFoldRows) continue;
      folds.push_back({m, nullptr, 0, sink_ + words});
      words += m.rows / 8 + 1;  // No backend has more groups.
      bytes += bytes_of(m);
    }
    return time(step + ", read only", 0, {bytes, 0}, [&] {
      for (const FoldArgs& args : folds) backend_.fold(args);
    });
  }
  // As many layers as make a pass of one row long enough; of many rows one is.
  int layers_of(std::uint64_t bytes_a_layer) const {
    if (rows_ > 1) return 1;
    return static_cast<int>(
        std::clamp<std::uint64_t>(request_.weight_bytes / bytes_a_layer, 1, kMostLayers));
  }
  std::uint64_t extent(std::int64_t rows, int cols) const {
    return quant_extent(backend_.info().layout, {rows, cols, 4}).bytes;
  }

  Result<void> copy() {
    const std::size_t bytes = extent(spec_.vocab_rows, spec_.hidden);
    LILY_TRY(const Buffer from, plausible_buffer(backend_, bytes, "a copy's source"));
    LILY_TRY(const Buffer to, plausible_buffer(backend_, bytes, "a copy"));
    return time("copy", 0, {2 * bytes, 0}, [&] {
      backend_.copy({from.address(), to.address(), static_cast<std::int64_t>(bytes)});
    });
  }
  Result<void> read() {
    const std::size_t bytes = request_.read_bytes / 16 * 16;
    if (bytes == 0) return {};
    LILY_TRY(const Buffer from, plausible_buffer(backend_, bytes, "memory to read"));
    return time("read", 0, {bytes, 0}, [&] {
      backend_.fold({{}, from.address(), static_cast<std::int64_t>(bytes), sink_});
    });
  }
  // Of many rows one is wanted.
  Result<void> head() {
    if (rows_ > 1) return {};
    LILY_TRY(const auto lm_head, matrix(spec_.vocab_rows, spec_.hidden));
    LILY_RETURN_IF_ERROR(time("head", 1, products(), [&] {
      backend_.head({.control = control_,
                     .h = in_,
                     .norm = norm_,
                     .lm_head = lm_head,
                     .logits = outs_[0],
                     .states = nullptr,
                     .first = 0,
                     .eps = spec_.rms_eps});
    }));
    return fold("head", 1);
  }
  Result<void> delta_projections() {
    const int wide = spec_.conv_dim() + spec_.value_dim();
    std::vector<GdnProjectArgs> layers;
    for (int i = 0, n = layers_of(extent(wide, spec_.hidden)); i < n; ++i) {
      LILY_TRY(const auto qkv, matrix(spec_.conv_dim(), spec_.hidden));
      LILY_TRY(const auto z, matrix(spec_.value_dim(), spec_.hidden));
      LILY_TRY(const auto b, matrix(spec_.n_value_heads, spec_.hidden));
      LILY_TRY(const auto a, matrix(spec_.n_value_heads, spec_.hidden));
      layers.push_back({control_, in_, norm_, qkv, z, b, a, outs_[0], outs_[1], outs_[2], outs_[3],
                        spec_.rms_eps});
    }
    LILY_RETURN_IF_ERROR(time("projections of delta layers", rows_, products(), [&] {
      for (const auto& layer : layers) backend_.gdn_project(layer);
    }));
    return fold("projections of delta layers", 4);
  }
  Result<void> attention_projections() {
    const int wide = 2 * spec_.q_dim() + 2 * spec_.kv_dim();
    std::vector<AttentionProjectArgs> layers;
    for (int i = 0, n = layers_of(extent(wide, spec_.hidden)); i < n; ++i) {
      LILY_TRY(const auto q, matrix(2 * spec_.q_dim(), spec_.hidden));
      LILY_TRY(const auto k, matrix(spec_.kv_dim(), spec_.hidden));
      LILY_TRY(const auto v, matrix(spec_.kv_dim(), spec_.hidden));
      layers.push_back(
          {control_, in_, norm_, q, k, v, outs_[0], outs_[1], outs_[2], spec_.rms_eps});
    }
    LILY_RETURN_IF_ERROR(time("projections of attention layers", rows_, products(), [&] {
      for (const auto& layer : layers) backend_.attention_project(layer);
    }));
    return fold("projections of attention layers", 3);
  }
  Result<void> output_projections() {
    std::vector<ProjectResidualArgs> layers;
    for (int i = 0, n = layers_of(extent(spec_.hidden, spec_.value_dim())); i < n; ++i) {
      LILY_TRY(const auto weight, matrix(spec_.hidden, spec_.value_dim()));
      layers.push_back({control_, in_, weight, outs_[0]});
    }
    LILY_RETURN_IF_ERROR(time("output projections", rows_, products(), [&] {
      for (const auto& layer : layers) backend_.project_residual(layer);
    }));
    return fold("output projections", 1);
  }
  // The layers share one set of experts and choose different ones.
  Result<void> experts() {
    const std::int64_t wide = std::int64_t{spec_.n_experts} * spec_.expert_width,
                       deep = std::int64_t{spec_.n_experts} * spec_.hidden;
    LILY_TRY(const auto gate, matrix(wide, spec_.hidden));
    LILY_TRY(const auto up, matrix(wide, spec_.hidden));
    LILY_TRY(const auto down, matrix(deep, spec_.expert_width));
    LILY_TRY(const auto shared_gate, matrix(spec_.shared_width, spec_.hidden));
    LILY_TRY(const auto shared_up, matrix(spec_.shared_width, spec_.hidden));
    LILY_TRY(const auto shared_down, matrix(spec_.hidden, spec_.shared_width));
    const int layers = rows_ > 1 ? 1 : std::max(1, spec_.n_experts / spec_.n_chosen);
    LILY_TRY(const Buffer chosen, choose_experts(layers));
    const auto ids = [&](int layer) {
      return chosen.as<std::int32_t>() + layer * rows_ * spec_.n_chosen;
    };
    const Work one = expert_work(layers);
    LILY_RETURN_IF_ERROR(time("experts, up", rows_, {2 * one.bytes, 2 * one.multiply_adds}, [&] {
      for (int i = 0; i < layers; ++i)
        backend_.experts_up({control_, in_, ids(i), gate, up, shared_gate, shared_up, outs_[0],
                             outs_[1], spec_.n_experts, spec_.n_chosen});
    }));
    return time("experts, down", rows_, one, [&] {
      for (int i = 0; i < layers; ++i)
        backend_.experts_down({control_, outs_[0], outs_[1], ids(i), norm_, norm_, down,
                               shared_down, outs_[2], spec_.n_experts, spec_.n_chosen});
    });
  }
  // Of one matrix an expert. Rows follow each other through the experts, so many rows reach all.
  Work expert_work(int layers) const {
    const int reached = std::min(spec_.n_experts, rows_ * spec_.n_chosen);
    const std::uint64_t expert = extent(spec_.expert_width, spec_.hidden),
                        shared = extent(spec_.shared_width, spec_.hidden);
    return {static_cast<std::uint64_t>(layers) *
                (static_cast<std::uint64_t>(reached) * expert + shared),
            static_cast<double>(layers) * rows_ * spec_.hidden *
                (spec_.n_chosen * spec_.expert_width + spec_.shared_width)};
  }
  // [layers, rows, K], ascending in a row
  Result<Buffer> choose_experts(int layers) {
    std::vector<std::int32_t> ids(size(layers * rows_ * spec_.n_chosen));
    for (int i = 0; i < layers * rows_; ++i) {
      const auto first = ids.begin() + i * spec_.n_chosen;
      std::iota(first, first + spec_.n_chosen,
                i * spec_.n_chosen % (spec_.n_experts - spec_.n_chosen + 1));
    }
    LILY_TRY(auto buffer, backend_.allocate(ids.size() * sizeof(std::int32_t), "chosen experts"));
    backend_.write(buffer, 0, std::as_bytes(std::span(ids)));
    return buffer;
  }
  // A row behind so many, in caches of several layers.
  Result<void> attention() {
    if (request_.positions == 0) return {};
    LILY_RETURN_IF_ERROR(take_rows(1, request_.positions));
    const int pages = request_.positions / kKvPageTokens + 1;
    const std::uint64_t row_bytes =
        2 * size(spec_.kv_dim()) * size(backend_.info().kv_element_bytes);
    const int layers = layers_of(row_bytes * size(request_.positions));
    LILY_TRY(const Buffer table, page_table(pages));
    LILY_TRY(const Buffer frequencies, backend_.allocate(kRotaryDims / 2 * sizeof(double), "rope"));
    std::vector<KvLayer> caches;
    weights_.clear();
    for (int i = 0; i < layers; ++i) {
      LILY_TRY(auto cache,
               plausible_buffer(backend_, row_bytes * size(pages) * kKvPageTokens, "KV cache"));
      weights_.push_back(std::move(cache));
      caches.push_back(
          {weights_.back().address(), table.as<std::int32_t>(), pages, spec_.n_kv_heads});
    }
    const std::uint64_t bytes = size(layers) * row_bytes * size(request_.positions + 1);
    const double products = 2.0 * layers * spec_.q_dim() * (request_.positions + 1);
    return time("attention", 1, {bytes, products}, [&] {
      for (const KvLayer& cache : caches) {
        backend_.attention_prepare({control_, in_, norm_, norm_, norm_, norm_,
                                    frequencies.as<double>(), cache, outs_[0], spec_.n_q_heads,
                                    1.0f, spec_.rms_eps});
        backend_.attention({control_, outs_[0], in_, cache, outs_[1], spec_.n_q_heads});
      }
    });
  }
  Result<Buffer> page_table(int pages) {
    std::vector<std::int32_t> in_order(size(pages));
    std::iota(in_order.begin(), in_order.end(), 0);
    LILY_TRY(auto table, backend_.allocate(in_order.size() * sizeof(std::int32_t), "page table"));
    backend_.write(table, 0, std::as_bytes(std::span(in_order)));
    return table;
  }

  Backend& backend_;
  const ModelSpec& spec_;
  StepRatesRequest request_;
  Passes passes_;
  int most_rows_ = 1, rows_ = 1;
  std::vector<Buffer> buffers_, weights_;
  std::vector<QuantMatrix> matrices_;  // Of the step that is measured.
  Buffer control_buffer_;
  PassControl* control_ = nullptr;
  float *in_ = nullptr, *norm_ = nullptr;
  float* outs_[4] = {};
  std::uint32_t* sink_ = nullptr;
  std::vector<StepRate> rates_;
};

}  // namespace

Result<std::vector<StepRate>> measure_steps(Backend& backend, const ModelSpec& spec,
                                            const StepRatesRequest& request) {
  return StepRates(backend, spec, request).measure();
}

Result<LaunchCosts> measure_launches(Backend& backend, const ModelSpec& spec, int repeats) {
  constexpr int kLaunches = 256;
  LILY_RETURN_IF_ERROR(backend.prepare(spec, 1));
  LILY_TRY(const Buffer sinks, backend.allocate(kLaunches * 64, "launches' words"));
  Passes passes(backend, repeats);
  // A launch of the same place waits for the one before.
  const auto launches = [&](int n, std::size_t apart) {
    return passes.time(1, [&, n, apart] {
      for (int i = 0; i < n; ++i)
        backend.fold({{}, nullptr, 0, sinks.as<std::uint32_t>(size(i) * apart)});
    });
  };
  LILY_TRY(const auto one, launches(1, 0));
  LILY_TRY(const auto dependent, launches(kLaunches, 0));
  LILY_TRY(const auto independent, launches(kLaunches, 64));
  constexpr double kMore = kLaunches - 1;
  return LaunchCosts{
      .pass_seconds = one.answered,
      .dependent_seconds = std::max(0.0, dependent.seconds - one.seconds) / kMore,
      .independent_seconds = std::max(0.0, independent.seconds - one.seconds) / kMore};
}

}  // namespace lily
