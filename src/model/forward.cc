// The model: what happens to a row from its token to its logits, step after step. Shapes and letters: backend/args.h.
#include "model/forward.h"

#include <algorithm>
#include <bit>
#include <span>

#include "base/check.h"

namespace lily {
namespace {

// The steps of one pass over a backend, with the buffers that tie them together.
class Pass {
 public:
  Pass(Backend& backend, Model& model, int block, const std::atomic<bool>* cancel)
      : backend_(backend),
        block_(block),
        cancel_(cancel),
        spec_(model.weights.spec),
        weights_(model.weights),
        model_(model),
        at_(model.buffers.activation()),
        control_(model.buffers.device_control(block)) {}

  // False, as of the pieces below: cancelled.
  bool whole(const HeadUse& use, int head_blocks) {
    embed();
    bool going = true;
    for (int i = 0; going && i < spec_.n_layers; ++i) going = layer(i);
    for (int block = 0; going && block < head_blocks; ++block) going = head(use, block * kHeadBlockRows);
    return going;
  }

  void embed() { backend_.embed({control_, weights_.embedding, at_.h}); }

  bool layer(int index) {
    const LayerWeights& layer = weights_.layers[static_cast<std::size_t>(index)];
    const auto kinds = spec_.layer_kinds.begin();
    const auto of_its_kind = static_cast<int>(std::count(kinds, kinds + index, kinds[index]));
    if (cancelled()) return false;
    if (const auto* delta = std::get_if<DeltaWeights>(&layer.mixer)) {
      delta_mixer(layer, *delta, model_.state.state_layer(of_its_kind));
    } else {
      attention_mixer(layer, std::get<AttentionWeights>(layer.mixer), model_.state.kv_layer(of_its_kind));
    }
    if (cancelled()) return false;
    experts(layer);
    return true;
  }

  bool head(const HeadUse& use, int first) {
    if (cancelled()) return false;
    backend_.head({control_, at_.h, weights_.final_norm, weights_.lm_head, at_.logits, nullptr, first, spec_.rms_eps});
    if (use.kind == HeadUse::Kind::kChoose) choose(use, first);
    if (use.kind == HeadUse::Kind::kScore) score(use, first);
    return true;
  }

 private:
  bool cancelled() const { return cancel_ && cancel_->load(std::memory_order_relaxed); }

  void delta_mixer(const LayerWeights& layer, const DeltaWeights& w, const StateLayer& state) {
    backend_.gdn_project({.control = control_, .h = at_.h, .norm = layer.input_norm,
                          .in_qkv = w.in_qkv, .in_z = w.in_z, .in_b = w.in_b, .in_a = w.in_a,
                          .qkv = at_.qkv, .z = at_.z, .b = at_.b, .a = at_.a, .eps = spec_.rms_eps});
    backend_.gdn_prepare({.control = control_, .qkv = at_.qkv, .b = at_.b, .a = at_.a,
                          .conv_weight = w.conv, .a_log = w.a_log, .dt_bias = w.dt_bias, .state = state,
                          .q = at_.q, .k = at_.k, .v = at_.v, .decay = at_.decay, .beta = at_.beta,
                          .n_key_heads = spec_.n_key_heads, .n_value_heads = spec_.n_value_heads,
                          .eps = kDeltaNormEps / kDeltaDim});
    backend_.gdn_scan({.control = control_, .q = at_.q, .k = at_.k, .v = at_.v,
                       .decay = at_.decay, .beta = at_.beta, .z = at_.z, .norm = w.norm, .state = state,
                       .y = at_.mixed, .n_key_heads = spec_.n_key_heads, .n_value_heads = spec_.n_value_heads,
                       .z_sigmoid = spec_.z_activation == ZActivation::kSigmoid, .eps = spec_.rms_eps});
    backend_.project_residual({control_, at_.mixed, w.out, at_.h});
  }

  void attention_mixer(const LayerWeights& layer, const AttentionWeights& w, const KvLayer& kv) {
    backend_.attention_project({.control = control_, .h = at_.h, .norm = layer.input_norm,
                                .in_q = w.in_q, .in_k = w.in_k, .in_v = w.in_v,
                                .q_gate = at_.q_gate, .k = at_.k, .v = at_.v, .eps = spec_.rms_eps});
    backend_.attention_prepare({.control = control_, .q_gate = at_.q_gate, .k = at_.k, .v = at_.v,
                                .q_norm = w.q_norm, .k_norm = w.k_norm,
                                .rope_frequencies = model_.rope_frequencies.as<const double>(), .kv = kv, .q = at_.q,
                                .n_q_heads = spec_.n_q_heads, .rope_magnitude = rope_magnitude(spec_.rope),
                                .eps = spec_.rms_eps});
    backend_.attention({.control = control_, .q = at_.q, .q_gate = at_.q_gate, .kv = kv, .y = at_.mixed,
                        .n_q_heads = spec_.n_q_heads});
    backend_.project_residual({control_, at_.mixed, w.out, at_.h});
  }

  void experts(const LayerWeights& layer) {
    const auto& w = layer.experts;
    backend_.route({.control = control_, .h = at_.h, .norm = layer.post_norm,
                    .router = w.router, .shared_gate = w.shared_gate, .x = at_.x, .experts = at_.experts,
                    .expert_weights = at_.expert_weights, .shared_weight = at_.shared_weight,
                    .n_chosen = spec_.n_chosen, .eps = spec_.rms_eps});
    backend_.experts_up({.control = control_, .x = at_.x, .experts = at_.experts, .gate = w.gate, .up = w.up,
                         .shared_gate = w.shared_up_gate, .shared_up = w.shared_up, .act = at_.act,
                         .shared_act = at_.shared_act, .n_experts = spec_.n_experts, .n_chosen = spec_.n_chosen});
    backend_.experts_down({.control = control_, .act = at_.act, .shared_act = at_.shared_act,
                           .experts = at_.experts, .expert_weights = at_.expert_weights,
                           .shared_weight = at_.shared_weight, .down = w.down, .shared_down = w.shared_down,
                           .h = at_.h, .n_experts = spec_.n_experts, .n_chosen = spec_.n_chosen});
  }

  void choose(const HeadUse& use, int first) {
    backend_.choose({control_, at_.logits, model_.buffers.device_sampling(block_), model_.buffers.device_chosen(block_),
                     use.next_tokens, first, spec_.vocab_rows, model_.vocab_used});
  }

  void score(const HeadUse& use, int first) {
    const ScoreAddresses out = model_.buffers.device_score();
    backend_.score({.control = control_, .logits = at_.logits, .targets = model_.buffers.device_targets(),
                    .reference_log_probs = use.reference_log_probs, .target_log_prob = out.target_log_prob,
                    .top_ids = out.top_ids, .top_log_probs = out.top_log_probs, .kl = out.kl,
                    .not_finite = out.not_finite, .first = first, .n_top = use.n_top,
                    .vocab_rows = spec_.vocab_rows, .vocab_used = model_.vocab_used});
  }

  Backend& backend_;
  int block_;
  const std::atomic<bool>* cancel_;
  const ModelSpec& spec_;
  const ModelWeights& weights_;
  Model& model_;
  const Activation& at_;
  const PassControl* control_;
};

void check_bounds(const PassControl& control, const Model& model) {
  LILY_CHECK(control.n_rows >= 1 && control.n_rows <= model.buffers.max_rows());
  LILY_CHECK(control.n_segments >= 1 && control.n_segments <= kMaxSegments);
  LILY_CHECK(control.n_head_rows >= 0 && control.n_head_rows <= control.n_rows);
  for (int i = 0; i < control.n_segments; ++i) {
    const Segment& s = control.segments[i];
    LILY_CHECK(s.n_rows >= 1 && s.first_row >= 0 && s.first_row + s.n_rows <= control.n_rows);
    LILY_CHECK(s.position >= 0 && s.position + s.n_rows <= model.state.limits().max_positions);
    LILY_CHECK(s.sequence >= 0 && s.sequence < model.state.limits().n_sequences);
    LILY_CHECK(s.state_in >= -1 && s.state_in < model.state.limits().n_slots);
    LILY_CHECK(s.state_out >= 0 && s.state_out < model.state.limits().n_slots);
    LILY_CHECK(s.snapshots >= -1 && (s.snapshots < 0 || s.snapshots + s.n_rows <= model.state.limits().n_slots));
  }
  for (int i = 0; i < control.n_head_rows; ++i) {
    LILY_CHECK(control.head_rows[i] >= 0 && control.head_rows[i] < control.n_rows);
  }
}

// Contexts that a recording is made for: up to here one recording serves all, beyond, one for each doubling.
constexpr int kShortContext = 32768;

int context_bound(const PassControl& control, int max_positions) {
  int longest = kShortContext;
  for (const Segment& s : std::span(control.segments).first(static_cast<std::size_t>(control.n_segments))) {
    longest = std::max(longest, s.position + s.n_rows);
  }
  const auto bound = static_cast<int>(std::bit_ceil(static_cast<unsigned>(longest)));
  return bound < max_positions ? bound : 0;
}

void upload(Backend& backend, Model& model, const ControlUse& from) {
  check_bounds(model.buffers.control(from.block), model);
  model.buffers.upload_control(backend, from.block, from.tokens);
}

PassKey key_of(Model& model, const HeadUse& use, int block) {
  const PassControl& control = model.buffers.control(block);
  const bool none = use.kind == HeadUse::Kind::kNone;
  return {.rows_bound = control.n_rows,
          .context_bound = context_bound(control, model.state.limits().max_positions),
          .control_block = block,
          .head_blocks = none ? 0 : (control.n_head_rows + kHeadBlockRows - 1) / kHeadBlockRows,
          .score = use.kind == HeadUse::Kind::kScore,
          .n_top = use.n_top,
          .reference_log_probs = use.reference_log_probs,
          .next_tokens = use.next_tokens};
}

// A pass that was being named is given up.
Error stopped(Backend& backend) {
  backend.abandon();
  return {ErrorCode::kCancelled, "the pass was stopped on request"};
}

// Segments, rows and tokens of the request, with pages for them.
Result<ControlUse> fill_control(Backend& backend, Model& model, const PassRequest& request) {
  PassControl& control = model.buffers.control(request.block);
  LILY_CHECK(!request.parts.empty() && request.parts.size() <= kMaxSegments);
  const bool given = !request.parts.front().tokens.empty();
  control.n_rows = control.n_segments = 0;
  for (const PassPart& part : request.parts) {
    LILY_CHECK(part.tokens.empty() != given);
    const int n = given ? static_cast<int>(part.tokens.size()) : 1;
    LILY_CHECK(control.n_rows + n <= kMaxPassRows);
    LILY_RETURN_IF_ERROR(model.state.reserve(backend, part.sequence, part.position + n));
    control.segments[control.n_segments++] = {.first_row = control.n_rows, .n_rows = n, .position = part.position,
                                              .sequence = part.sequence, .state_in = part.position == 0 ? -1 : part.state_in,
                                              .state_out = part.state_out, .snapshots = -1, .reserved = 0};
    std::copy(part.tokens.begin(), part.tokens.end(), control.tokens + control.n_rows);
    control.n_rows += n;
  }
  control.n_head_rows = static_cast<std::int32_t>(request.head_rows.size());
  std::copy(request.head_rows.begin(), request.head_rows.end(), control.head_rows);
  using enum PassBuffers::TokensFrom;
  return ControlUse{.block = request.block, .tokens = given ? kHost : kDevice};
}

// The pieces of one pass, each named where the backend asks for it, handed over and waited for.
class PiecewisePass {
 public:
  PiecewisePass(Backend& backend, Model& model, const PassRequest& request)
      : backend_(backend), request_(request), pass_(backend, model, request.block, request.cancel),
        key_(key_of(model, request.head, request.block)) {}

  Result<void> embed() {
    return piece([this] { pass_.embed(); return true; });
  }
  Result<void> layer(int index) {
    return piece([&] { return pass_.layer(index); });
  }
  Result<void> head(int first) {
    return piece([&] { return pass_.head(request_.head, first); });
  }

 private:
  template <typename Naming>
  Result<void> piece(const Naming& name_steps) {
    ++key_.piece;
    if (backend_.begin(key_) && !name_steps()) return stopped(backend_);
    return backend_.wait(backend_.submit());
  }

  Backend& backend_;
  const PassRequest& request_;
  Pass pass_;
  PassKey key_;
};

}  // namespace

Result<Model> create_model(Backend& backend, const LoadedWeights& loaded, const ModelLimits& limits) {
  LILY_CHECK(limits.max_rows >= 1 && limits.max_rows <= kMaxPassRows);
  const ModelSpec& spec = loaded.config.spec;
  LILY_RETURN_IF_ERROR(backend.prepare(spec, limits.max_rows));
  Model model;
  LILY_TRY(model.weights, ModelWeights::bind(backend, loaded));
  LILY_TRY(model.state, ModelState::create(backend, spec, limits.state));
  LILY_TRY(model.buffers, PassBuffers::create(backend, spec, limits.max_rows));
  const auto frequencies = rope_frequencies(spec.rope);
  LILY_TRY(model.rope_frequencies, backend.allocate(frequencies.size() * sizeof(double), "rope frequencies"));
  backend.write(model.rope_frequencies, 0, std::as_bytes(std::span(frequencies)));
  model.vocab_used = limits.vocab_used;
  return model;
}

Result<Ticket> forward(Backend& backend, Model& model, const HeadUse& use, const ControlUse& from, const std::atomic<bool>* cancel) {
  upload(backend, model, from);
  const PassKey key = key_of(model, use, from.block);
  if (backend.begin(key) && !Pass(backend, model, from.block, cancel).whole(use, key.head_blocks)) return stopped(backend);
  return backend.submit();
}

Result<Ticket> enqueue_pass(Backend& backend, Model& model, const PassRequest& request) {
  LILY_TRY(const ControlUse from, fill_control(backend, model, request));
  return forward(backend, model, request.head, from, request.cancel);
}

Result<void> run_pass(Backend& backend, Model& model, const PassRequest& request) {
  LILY_TRY(const Ticket ticket, enqueue_pass(backend, model, request));
  return backend.wait(ticket);
}

Result<void> run_pass(Backend& backend, Model& model, const PassRequest& request, PassWatcher& watcher) {
  LILY_TRY(const ControlUse from, fill_control(backend, model, request));
  upload(backend, model, from);
  PiecewisePass pass(backend, model, request);
  LILY_RETURN_IF_ERROR(pass.embed());
  LILY_RETURN_IF_ERROR(watcher.after_layer(-1));
  for (int i = 0; i < model.weights.spec.n_layers; ++i) {
    LILY_RETURN_IF_ERROR(pass.layer(i));
    LILY_RETURN_IF_ERROR(watcher.after_layer(i));
  }
  const int n_head_rows = request.head.kind == HeadUse::Kind::kNone ? 0 : static_cast<int>(request.head_rows.size());
  for (int first = 0; first < n_head_rows; first += kHeadBlockRows) {
    LILY_RETURN_IF_ERROR(pass.head(first));
    LILY_RETURN_IF_ERROR(watcher.after_head(first));
  }
  return {};
}

}  // namespace lily
