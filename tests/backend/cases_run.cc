// run(): a case's buffers on the device, its step as a pass of its own, the results back.
#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/check.h"
#include "tests/backend/cases.h"

namespace lily::cases {

namespace {

void pack_row_major(const Matrix& m, const QuantExtent& extent, std::uint8_t* bytes) {
  for (std::size_t i = 0; i < m.codes.size(); ++i) {
    if (m.bits == 8) bytes[i] = m.codes[i];
    if (m.bits == 4)
      bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] | m.codes[i] << (i % 2 * 4));
  }
  std::memcpy(bytes + extent.scales, m.scales.data(), 2 * m.scales.size());
  std::memcpy(bytes + extent.biases, m.biases.data(), 2 * m.biases.size());
}

// Entry (r, c) of its record: the scale, the bias, and the code in one plane or two.
void pack_entry(const Matrix& m, std::size_t r, std::size_t c, std::uint8_t* bytes) {
  const auto cols = static_cast<std::size_t>(m.cols), n_groups = cols / kQuantGroup;
  const std::size_t group = c / kQuantGroup, in_group = c % kQuantGroup, lane = r % kBlockRows;
  auto* record = bytes + (r / kBlockRows * n_groups + group) * record_bytes(m.bits);
  std::memcpy(record + 2 * lane, &m.scales[r * n_groups + group], 2);
  std::memcpy(record + 2 * (kBlockRows + lane), &m.biases[r * n_groups + group], 2);
  auto* plane = record + 4 * kBlockRows + 64 * (in_group / 8) + 4 * lane + in_group % 4;
  const int shift = in_group % 8 < 4 ? 0 : 4, code = m.codes[r * cols + c];
  plane[0] = static_cast<std::uint8_t>(plane[0] | (code & 15) << shift);
  if (m.bits == 8)
    plane[kPlaneBytes] = static_cast<std::uint8_t>(plane[kPlaneBytes] | (code >> 4) << shift);
}

}  // namespace

std::vector<std::byte> pack(const Matrix& m, WeightLayout layout) {
  const QuantExtent extent = quant_extent(layout, {m.rows, m.cols, m.bits});
  std::vector<std::byte> out(extent.bytes);
  auto* bytes = reinterpret_cast<std::uint8_t*>(out.data());
  if (layout == WeightLayout::kRowMajor) {
    pack_row_major(m, extent, bytes);
    return out;
  }
  for (std::size_t r = 0; r < static_cast<std::size_t>(m.rows); ++r) {
    for (std::size_t c = 0; c < static_cast<std::size_t>(m.cols); ++c) pack_entry(m, r, c, bytes);
  }
  return out;
}

namespace {

// Buffers of one run on one backend.
class Device {
 public:
  explicit Device(Backend& backend) : backend_(backend) {}

  Buffer allocate(std::size_t bytes) {
    auto buffer = backend_.allocate(bytes, "a test's buffer");
    LILY_CHECK(buffer.has_value());
    held_.push_back(*buffer);
    return *buffer;
  }

  template <typename T>
  T* put(const std::vector<T>& values) {
    const Buffer buffer = allocate(values.size() * sizeof(T));
    backend_.write(buffer, 0, std::as_bytes(std::span(values)));
    return buffer.as<T>();
  }

  template <typename T>
  T* put_or_null(const std::vector<T>& values) {
    return values.empty() ? nullptr : put(values);
  }

  const PassControl* put(const PassControl& control) {
    return put(std::vector<PassControl>{control});
  }

  QuantMatrix put(const Matrix& m) {
    const WeightLayout layout = backend_.info().layout;
    auto* bytes = put(pack(m, layout));
    QuantMatrix out{
        bytes, nullptr, nullptr, m.rows, m.cols, m.bits, static_cast<std::uint32_t>(layout)};
    if (layout == WeightLayout::kRowMajor) {
      const QuantExtent extent = quant_extent(layout, {m.rows, m.cols, m.bits});
      out.scales = reinterpret_cast<const std::uint16_t*>(bytes + extent.scales);
      out.biases = reinterpret_cast<const std::uint16_t*>(bytes + extent.biases);
    }
    return out;
  }

  // A result of n entries, named for Outputs.
  template <typename T = float>
  T* out(const char* name, std::size_t n) {
    return inout(name, std::vector<T>(n, static_cast<T>(kUntouched)));
  }

  template <typename T>
  T* inout(const char* name, const std::vector<T>& values) {
    T* address = put(values);
    results_.push_back({name, held_.back(), values.size(), std::is_integral_v<T>});
    return address;
  }

  template <typename T>
  std::vector<T> get(const Buffer& from, std::size_t n) {
    std::vector<T> values(n);
    LILY_CHECK(backend_.read(from, 0, std::as_writable_bytes(std::span(values))).has_value());
    return values;
  }

  // Of the buffer at an address that put() or out() gave.
  template <typename T>
  std::vector<T> get_at(const T* address, std::size_t n) {
    const auto at = std::find_if(held_.begin(), held_.end(),
                                 [&](const Buffer& b) { return b.address() == address; });
    LILY_CHECK(at != held_.end());
    return get<T>(*at, n);
  }

  // Runs `step` as a pass, and reads every named result.
  template <typename F>
  Outputs pass(const PassControl& control, F&& step) {
    const int blocks = (control.n_head_rows + kHeadBlockRows - 1) / kHeadBlockRows;
    LILY_CHECK(backend_.begin({.rows_bound = control.n_rows + spare_rows, .head_blocks = blocks}));
    step();
    LILY_CHECK(backend_.wait(backend_.submit()).has_value());
    Outputs outputs;
    for (const Result& r : results_)
      outputs[r.name] = r.integer ? integers(r) : get<float>(r.buffer, r.n);
    return outputs;
  }

  Backend& backend() { return backend_; }
  const Buffer& last() const { return held_.back(); }

 private:
  struct Result {
    std::string name;
    Buffer buffer;
    std::size_t n;
    bool integer;
  };

  std::vector<float> integers(const Result& r) {
    const auto values = get<std::int32_t>(r.buffer, r.n);
    return {values.begin(), values.end()};
  }

  Backend& backend_;
  std::vector<Buffer> held_;
  std::vector<Result> results_;
};

std::size_t times(int a, int b) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b);
}

// The pool of one layer inside larger slots, as in the state pool: 64 bytes, delta, 192 bytes,
// conv, 128 bytes.
class Pool {
 public:
  Pool(Device& device, const ModelSpec& spec, const States& states)
      : device_(device), n_slots_(states.n_slots) {
    delta_ = static_cast<std::size_t>(spec.n_value_heads) * kDeltaDim * kDeltaDim;
    conv_ = times(kConvTaps - 1, spec.conv_dim());
    conv_at_ = 64 + 4 * delta_ + 192;
    slot_bytes_ = conv_at_ + 4 * conv_ + 128;
    buffer_ = device.allocate(slot_bytes_ * static_cast<std::size_t>(n_slots_));
    for (std::size_t s = 0; s < static_cast<std::size_t>(n_slots_); ++s) {
      const std::span delta(states.delta.data() + s * delta_, delta_),
          conv(states.conv.data() + s * conv_, conv_);
      device.backend().write(buffer_, s * slot_bytes_ + 64, std::as_bytes(delta));
      device.backend().write(buffer_, s * slot_bytes_ + conv_at_, std::as_bytes(conv));
    }
  }

  StateLayer layer() const {
    return {buffer_.as<unsigned char>(), static_cast<std::int64_t>(slot_bytes_), 64,
            static_cast<std::int64_t>(conv_at_)};
  }

  void read(Outputs& outputs) {
    outputs["delta"] = part(64, delta_);
    outputs["conv"] = part(conv_at_, conv_);
  }

 private:
  std::vector<float> part(std::size_t at, std::size_t n) {
    std::vector<float> out(n * static_cast<std::size_t>(n_slots_));
    for (std::size_t s = 0; s < static_cast<std::size_t>(n_slots_); ++s) {
      const auto bytes = std::as_writable_bytes(std::span(out.data() + s * n, n));
      LILY_CHECK(device_.backend().read(buffer_, s * slot_bytes_ + at, bytes).has_value());
    }
    return out;
  }

  Device& device_;
  int n_slots_;
  std::size_t delta_, conv_, conv_at_, slot_bytes_;
  Buffer buffer_;
};

// The cache of one layer in the backend's element type.
class Cache {
 public:
  Cache(Device& device, const ModelSpec& spec, const Kv& kv)
      : device_(device), n_(kv.pages.size()) {
    layer_ = {nullptr, device.put(kv.table), kv.table_stride, spec.n_kv_heads};
    if (wide()) {
      layer_.pages = device.put(kv.pages);
    } else {
      std::vector<Bf16> narrow(n_);
      for (std::size_t i = 0; i < n_; ++i) narrow[place(i)] = float_to_bf16(kv.pages[i]);
      layer_.pages = device.put(narrow);
    }
    buffer_ = device.last();
  }

  const KvLayer& layer() const { return layer_; }

  void read(Outputs& outputs) {
    auto& out = outputs["kv"];
    if (wide()) {
      out = device_.get<float>(buffer_, n_);
      return;
    }
    const auto narrow = device_.get<Bf16>(buffer_, n_);
    for (std::size_t i = 0; i < n_; ++i) out.push_back(bf16_to_float(narrow[place(i)]));
  }

 private:
  bool wide() { return device_.backend().info().kv_element_bytes == 4; }
  // Where the device keeps element `i` of [pages, Hkv, 2, kKvPageTokens, 256].
  std::size_t place(std::size_t i) {
    constexpr std::size_t kPart = std::size_t{kKvPageTokens} * kHeadDim;
    if (i / kPart % 2 == 1) return i;
    const auto row = static_cast<std::int64_t>(i % kPart / kHeadDim),
               dim = static_cast<std::int64_t>(i % kHeadDim);
    return i / kPart * kPart +
           static_cast<std::size_t>(key_offset(device_.backend().info().key_layout, row, dim));
  }

  Device& device_;
  std::size_t n_;
  KvLayer layer_;
  Buffer buffer_;
};

// A control whose n head rows are rows 0 .. n - 1.
PassControl head_control(int n) {
  PassControl control{};
  control.n_rows = control.n_head_rows = n;
  for (int i = 0; i < n; ++i) control.head_rows[i] = i;
  return control;
}

// The logits of one block, padded to kHeadBlockRows rows.
std::vector<float> block_of(const std::vector<float>& logits, int vocab_rows, int first) {
  std::vector<float> block(times(kHeadBlockRows, vocab_rows), kUntouched);
  const std::size_t from = times(first, vocab_rows);
  std::copy_n(logits.begin() + static_cast<std::ptrdiff_t>(from),
              std::min(block.size(), logits.size() - from), block.begin());
  return block;
}

}  // namespace

Outputs run(Backend& backend, const EmbedCase& c) {
  Device d(backend);
  const EmbedArgs args{d.put(c.control), d.put(c.table),
                       d.out("h", times(c.control.n_rows, c.table.cols))};
  return d.pass(c.control, [&] { backend.embed(args); });
}

Outputs run(Backend& backend, const GdnProjectCase& c) {
  Device d(backend);
  const int n = c.control.n_rows;
  const GdnProjectArgs args{.control = d.put(c.control),
                            .h = d.put(c.h),
                            .norm = d.put(c.norm),
                            .in_qkv = d.put(c.in_qkv),
                            .in_z = d.put(c.in_z),
                            .in_b = d.put(c.in_b),
                            .in_a = d.put(c.in_a),
                            .qkv = d.out("qkv", times(n, c.spec.conv_dim())),
                            .z = d.out("z", times(n, c.spec.value_dim())),
                            .b = d.out("b", times(n, c.spec.n_value_heads)),
                            .a = d.out("a", times(n, c.spec.n_value_heads)),
                            .eps = c.spec.rms_eps};
  return d.pass(c.control, [&] { backend.gdn_project(args); });
}

Outputs run(Backend& backend, const GdnPrepareCase& c) {
  Device d(backend);
  Pool pool(d, c.spec, c.states);
  const int n = c.control.n_rows;
  const GdnPrepareArgs args{.control = d.put(c.control),
                            .qkv = d.put(c.qkv),
                            .b = d.put(c.b),
                            .a = d.put(c.a),
                            .conv_weight = d.put(c.conv_weight),
                            .a_log = d.put(c.a_log),
                            .dt_bias = d.put(c.dt_bias),
                            .state = pool.layer(),
                            .q = d.out("q", times(n, c.spec.key_dim())),
                            .k = d.out("k", times(n, c.spec.key_dim())),
                            .v = d.out("v", times(n, c.spec.value_dim())),
                            .decay = d.out("decay", times(n, c.spec.n_value_heads)),
                            .beta = d.out("beta", times(n, c.spec.n_value_heads)),
                            .n_key_heads = c.spec.n_key_heads,
                            .n_value_heads = c.spec.n_value_heads,
                            .eps = c.spec.rms_eps};
  auto outputs = d.pass(c.control, [&] { backend.gdn_prepare(args); });
  pool.read(outputs);
  return outputs;
}

Outputs run(Backend& backend, const GdnScanCase& c) {
  Device d(backend);
  Pool pool(d, c.spec, c.states);
  const GdnScanArgs args{.control = d.put(c.control),
                         .q = d.put(c.q),
                         .k = d.put(c.k),
                         .v = d.put(c.v),
                         .decay = d.put(c.decay),
                         .beta = d.put(c.beta),
                         .z = d.put(c.z),
                         .norm = d.put(c.norm),
                         .state = pool.layer(),
                         .y = d.out("y", times(c.control.n_rows, c.spec.value_dim())),
                         .n_key_heads = c.spec.n_key_heads,
                         .n_value_heads = c.spec.n_value_heads,
                         .z_sigmoid = c.spec.z_activation == ZActivation::kSigmoid,
                         .eps = c.spec.rms_eps};
  auto outputs = d.pass(c.control, [&] { backend.gdn_scan(args); });
  pool.read(outputs);
  return outputs;
}

Outputs run(Backend& backend, const ProjectResidualCase& c) {
  Device d(backend);
  const ProjectResidualArgs args{d.put(c.control), d.put(c.x), d.put(c.weight), d.inout("h", c.h)};
  return d.pass(c.control, [&] { backend.project_residual(args); });
}

Outputs run(Backend& backend, const AttentionProjectCase& c) {
  Device d(backend);
  const int n = c.control.n_rows;
  const AttentionProjectArgs args{.control = d.put(c.control),
                                  .h = d.put(c.h),
                                  .norm = d.put(c.norm),
                                  .in_q = d.put(c.in_q),
                                  .in_k = d.put(c.in_k),
                                  .in_v = d.put(c.in_v),
                                  .q_gate = d.out("q_gate", 2 * times(n, c.spec.q_dim())),
                                  .k = d.out("k", times(n, c.spec.kv_dim())),
                                  .v = d.out("v", times(n, c.spec.kv_dim())),
                                  .eps = c.spec.rms_eps};
  return d.pass(c.control, [&] { backend.attention_project(args); });
}

namespace {

AttentionPrepareArgs arguments(Device& d, const AttentionPrepareCase& c, const KvLayer& kv,
                               float* q) {
  return {.control = d.put(c.control),
          .q_gate = d.put(c.q_gate),
          .k = d.put(c.k),
          .v = d.put(c.v),
          .q_norm = d.put(c.q_norm),
          .k_norm = d.put(c.k_norm),
          .rope_frequencies = d.put(rope_frequencies(c.spec.rope)),
          .kv = kv,
          .q = q,
          .n_q_heads = c.spec.n_q_heads,
          .rope_magnitude = rope_magnitude(c.spec.rope),
          .eps = c.spec.rms_eps};
}

}  // namespace

Outputs run(Backend& backend, const AttentionPrepareCase& c) {
  Device d(backend);
  Cache cache(d, c.spec, c.kv);
  const auto args =
      arguments(d, c, cache.layer(), d.out("q", times(c.control.n_rows, c.spec.q_dim())));
  auto outputs = d.pass(c.control, [&] { backend.attention_prepare(args); });
  cache.read(outputs);
  return outputs;
}

Outputs run(Backend& backend, const AttentionCase& c) {
  Device d(backend);
  Cache cache(d, c.spec, c.kv);
  const AttentionArgs args{.control = d.put(c.control),
                           .q = d.put(c.q),
                           .q_gate = d.put(c.q_gate),
                           .kv = cache.layer(),
                           .y = d.out("y", times(c.control.n_rows, c.spec.q_dim())),
                           .n_q_heads = c.spec.n_q_heads};
  return d.pass(c.control, [&] { backend.attention(args); });
}

Outputs run_both(Backend& backend, const AttentionPrepareCase& c) {
  Device d(backend);
  Cache cache(d, c.spec, c.kv);
  const std::size_t n = times(c.control.n_rows, c.spec.q_dim());
  const auto prepare = arguments(d, c, cache.layer(), d.put(std::vector<float>(n)));
  const AttentionArgs args{.control = prepare.control,
                           .q = prepare.q,
                           .q_gate = prepare.q_gate,
                           .kv = prepare.kv,
                           .y = d.out("y", n),
                           .n_q_heads = prepare.n_q_heads};
  auto outputs = d.pass(c.control, [&] {
    backend.attention_prepare(prepare);
    backend.attention(args);
  });
  cache.read(outputs);
  return outputs;
}

Outputs run(Backend& backend, const RouteCase& c) {
  Device d(backend);
  const int n = c.control.n_rows;
  const RouteArgs args{.control = d.put(c.control),
                       .h = d.put(c.h),
                       .norm = d.put(c.norm),
                       .router = d.put(c.router),
                       .shared_gate = d.put(c.shared_gate),
                       .x = d.out("x", times(n, c.spec.hidden)),
                       .experts = d.out<std::int32_t>("experts", times(n, c.spec.n_chosen)),
                       .expert_weights = d.out("expert_weights", times(n, c.spec.n_chosen)),
                       .shared_weight = d.out("shared_weight", times(n, 1)),
                       .n_chosen = c.spec.n_chosen,
                       .eps = c.spec.rms_eps};
  return d.pass(c.control, [&] { backend.route(args); });
}

Outputs run(Backend& backend, const ExpertsUpCase& c) {
  Device d(backend);
  const int n = c.control.n_rows;
  const ExpertsUpArgs args{.control = d.put(c.control),
                           .x = d.put(c.x),
                           .experts = d.put(c.experts),
                           .gate = d.put(c.gate),
                           .up = d.put(c.up),
                           .shared_gate = d.put(c.shared_gate),
                           .shared_up = d.put(c.shared_up),
                           .act = d.out("act", times(n * c.spec.n_chosen, c.spec.expert_width)),
                           .shared_act = d.out("shared_act", times(n, c.spec.shared_width)),
                           .n_experts = c.spec.n_experts,
                           .n_chosen = c.spec.n_chosen};
  return d.pass(c.control, [&] { backend.experts_up(args); });
}

Outputs run(Backend& backend, const ExpertsDownCase& c) {
  Device d(backend);
  const ExpertsDownArgs args{.control = d.put(c.control),
                             .act = d.put(c.act),
                             .shared_act = d.put(c.shared_act),
                             .experts = d.put(c.experts),
                             .expert_weights = d.put(c.expert_weights),
                             .shared_weight = d.put(c.shared_weight),
                             .down = d.put(c.down),
                             .shared_down = d.put(c.shared_down),
                             .h = d.inout("h", c.h),
                             .n_experts = c.spec.n_experts,
                             .n_chosen = c.spec.n_chosen};
  return d.pass(c.control, [&] { backend.experts_down(args); });
}

Outputs run(Backend& backend, const HeadCase& c) {
  Device d(backend);
  const int n = c.control.n_head_rows, vocab = c.lm_head.rows;
  const int n_blocks = (n + kHeadBlockRows - 1) / kHeadBlockRows;
  const std::size_t block = times(kHeadBlockRows, vocab);
  HeadArgs args{.control = d.put(c.control),
                .h = d.put(c.h),
                .norm = d.put(c.norm),
                .lm_head = d.put(c.lm_head),
                .logits = d.out("logits", block * static_cast<std::size_t>(n_blocks)),
                .states = d.out("states", times(n, c.spec.hidden)),
                .first = 0,
                .eps = c.spec.rms_eps};
  auto outputs = d.pass(c.control, [&] {
    for (; args.first < n; args.first += kHeadBlockRows, args.logits += block) backend.head(args);
  });
  outputs["logits"].resize(times(n, vocab));
  return outputs;
}

Outputs run(Backend& backend, const ScoreCase& c) {
  Device d(backend);
  const PassControl control = head_control(c.n_rows);
  const std::size_t n = times(c.n_rows, 1);
  ScoreArgs args{.control = d.put(control),
                 .logits = nullptr,
                 .targets = d.put_or_null(c.targets),
                 .reference_log_probs = d.put_or_null(c.reference_log_probs),
                 .target_log_prob = d.out("target_log_prob", n),
                 .top_ids = d.out<std::int32_t>("top_ids", times(c.n_rows, c.n_top)),
                 .top_log_probs = d.out("top_log_probs", times(c.n_rows, c.n_top)),
                 .kl = d.out("kl", n),
                 .not_finite = d.out<std::int32_t>("not_finite", n),
                 .first = 0,
                 .n_top = c.n_top,
                 .vocab_rows = c.vocab_rows,
                 .vocab_used = c.vocab_used};
  return d.pass(control, [&] {
    for (; args.first < c.n_rows; args.first += kHeadBlockRows) {
      args.logits = d.put(block_of(c.logits, c.vocab_rows, args.first));
      backend.score(args);
    }
  });
}

namespace {

// The control with its pointers set to buffers on the device; "generated" of all rows becomes one
// result.
SamplingControl* put(Device& d, const Sampling& s, std::int32_t* generated) {
  SamplingControl control = s.control;
  std::vector<std::int32_t> ids;
  std::vector<float> values;
  for (const auto& [id, value] : s.bias) {
    ids.push_back(id);
    values.push_back(value);
  }
  control.generated = generated;
  control.in_prompt = d.put(s.in_prompt);
  control.bias_ids = d.put(ids);
  control.bias_values = d.put(values);
  control.n_bias = static_cast<std::int32_t>(ids.size());
  control.allowed = d.put_or_null(s.allowed);
  return d.put(std::vector<SamplingControl>{control});
}

void read_chosen(const std::vector<ChosenToken>& chosen, Outputs& outputs) {
  for (const auto& row : chosen) {
    outputs["token"].push_back(static_cast<float>(row.token));
    outputs["not_finite"].push_back(static_cast<float>(row.not_finite));
    outputs["log_prob"].push_back(row.log_prob);
    outputs["n_top"].push_back(static_cast<float>(row.n_top));
    for (int i = 0; i < row.n_top; ++i) {
      outputs["top_ids"].push_back(static_cast<float>(row.top_ids[i]));
      outputs["top_log_probs"].push_back(row.top_log_probs[i]);
    }
  }
}

ChooseArgs arguments(Device& d, const PassControl& control, const std::vector<Sampling>& rows,
                     int vocab_rows, int vocab_used) {
  std::vector<std::int32_t> generated;
  for (const auto& row : rows)
    generated.insert(generated.end(), row.generated.begin(), row.generated.end());
  auto* counts = d.inout("generated", generated);
  std::vector<SamplingControl*> controls;
  for (std::size_t i = 0; i < rows.size(); ++i)
    controls.push_back(put(d, rows[i], counts + i * static_cast<std::size_t>(vocab_used)));
  auto* control_list = d.put(controls);
  auto* next_tokens = d.out<std::int32_t>("next_tokens", rows.size());
  auto* chosen = d.put(std::vector<ChosenToken>(rows.size()));
  return {d.put(control), nullptr, control_list, chosen, next_tokens, 0, vocab_rows, vocab_used};
}

}  // namespace

// Beside the members of ChosenToken, row after row: "generated" [rows, vocab_used] and
// "next_tokens" [rows].
Outputs run(Backend& backend, const ChooseCase& c) {
  Device d(backend);
  const int n = static_cast<int>(c.rows.size());
  const PassControl control = head_control(n);
  ChooseArgs args = arguments(d, control, c.rows, c.vocab_rows, c.vocab_used);
  auto outputs = d.pass(control, [&] {
    for (; args.first < n; args.first += kHeadBlockRows) {
      args.logits = d.put(block_of(c.logits, c.vocab_rows, args.first));
      backend.choose(args);
    }
  });
  read_chosen(d.get_at(args.chosen, c.rows.size()), outputs);
  return outputs;
}

Outputs run_both(Backend& backend, const HeadCase& c, const std::vector<Sampling>& rows,
                 int vocab_used) {
  Device d(backend);
  ChooseArgs args = arguments(d, c.control, rows, c.lm_head.rows, vocab_used);
  const std::size_t n_logits = times(kHeadBlockRows, c.lm_head.rows);
  const HeadArgs head{.control = args.control,
                      .h = d.put(c.h),
                      .norm = d.put(c.norm),
                      .lm_head = d.put(c.lm_head),
                      .logits = d.out("logits", n_logits),
                      .states = nullptr,
                      .first = 0,
                      .eps = c.spec.rms_eps};
  args.logits = head.logits;
  auto outputs = d.pass(c.control, [&] {
    backend.head(head);
    backend.choose(args);
  });
  read_chosen(d.get_at(args.chosen, rows.size()), outputs);
  return outputs;
}

}  // namespace lily::cases
