// What each kernel moves at the 35B's shapes, as the emulator counts it, against its floor: every
// byte that it has to read or write, once. docs/KERNELS.md holds the table that this prints.
//
// Counted are the bytes that a kernel touches. Who touches weights, states and the cache again, in
// another group, would read them again from memory: the last column adds up what each group
// touches, of buffers past 64 KiB; smaller operands stay in caches.
#include <fmt/format.h>

#include <iostream>

#include "tests/backend/gpu/gpu.h"

#if !defined(LILY_GPU_TSAN)

namespace lily::cases {
namespace {

using gpu::BufferTraffic;
using gpu::DispatchRecord;

constexpr double kBar = 1.1;
constexpr std::uint64_t kCached = 65536;

constexpr int kTrafficVocab = 4096;

// The 35B with 10 experts of 256, of which a row touches 8 either way, and 4,096 entries of its
// vocabulary.
ModelSpec traffic_spec() {
  ModelSpec spec = pocket_spec();
  spec.hidden = 2048;
  spec.n_q_heads = 16;
  spec.n_kv_heads = 2;
  spec.n_key_heads = 16;
  spec.n_value_heads = 32;
  spec.n_experts = 10;
  spec.n_chosen = 8;
  spec.expert_width = spec.shared_width = 512;
  spec.vocab_rows = kTrafficVocab;
  return spec;
}

// A quarter as wide, for kernels of many forms: the emulator watches every access.
ModelSpec narrow_spec() {
  ModelSpec spec = traffic_spec();
  spec.hidden = 512;
  spec.expert_width = spec.shared_width = 128;
  return spec;
}

// ---- floors

double floats(double n) {
  return 4 * n;
}
double matrix(double rows, double cols, int bits) {
  return rows * cols * (bits / 8.0 + 4.0 / kQuantGroup);
}
// Keys and values of n positions.
double cache(const ModelSpec& spec, double n) {
  return n * 4 * spec.kv_dim();
}

class Traffic {
 public:
  explicit Traffic(const Mechanisms& mechanisms = {}, const gpu::Tuning& tuning = {},
                   const ModelSpec& spec = traffic_spec()) {
    auto device = gpu::EmulatorDevice::create({.observe = true});
    LILY_CHECK(device.has_value());
    device_ = device->get();
    backend_ = std::make_unique<gpu::GpuBackend>(std::move(*device), mechanisms, tuning);
    LILY_CHECK(backend_->prepare(spec, 64).has_value());
  }
  Backend& backend() { return *backend_; }

  // Of the pass that ran last.
  std::vector<DispatchRecord> records() {
    std::vector<DispatchRecord> out;
    LILY_CHECK(device_
                   ->with_memory([&](gpu::Emulator& emulator) -> Result<void> {
                     out = emulator.records();
                     return {};
                   })
                   .has_value());
    return out;
  }

 private:
  gpu::EmulatorDevice* device_;
  std::unique_ptr<gpu::GpuBackend> backend_;
};

struct Floor {
  std::string kernel;
  double bytes;
};

// Prints a line a kernel and holds it to its floor.
void expect_floors(Traffic& traffic, const std::vector<Floor>& floors, const char* note = "") {
  const auto records = traffic.records();
  ASSERT_EQ(records.size(), floors.size());
  for (std::size_t i = 0; i < floors.size(); ++i) {
    double counted = 0, groups = 0;
    for (const BufferTraffic& t : records[i].traffic) {
      const auto once = t.unique_read + t.unique_written;
      counted += static_cast<double>(once);
      groups += static_cast<double>(once <= kCached ? once : t.group_read + t.group_written);
    }
    ASSERT_EQ(records[i].kernel->name, floors[i].kernel);
    std::cout << fmt::format("| {} | {} | {:.1f} | {:.1f} | {:.3f} | {:.2f} |\n", floors[i].kernel,
                             note, floors[i].bytes / 1024, counted / 1024,
                             counted / floors[i].bytes, groups / floors[i].bytes);
    EXPECT_LE(counted, kBar * floors[i].bytes) << floors[i].kernel;
    if (floors[i].bytes > 4096) {
      EXPECT_GE(counted, 0.9 * floors[i].bytes) << floors[i].kernel << ": that is no floor";
    }
  }
}

struct Pass {
  ModelSpec spec;
  Random random{90};
  int n;
  PassControl control;
  Pass(int n_rows, int position, const std::vector<int>& head_rows = {},
       const ModelSpec& of = traffic_spec())
      : spec(of),
        n(n_rows),
        control(make_pass(spec,
                          {{.n_rows = n_rows, .position = position, .state_in = 1, .state_out = 0}},
                          head_rows, random)) {}
};

// ---- products

TEST(GpuTraffic, Products) {
  Traffic traffic;
  Pass p(1, 0, {0});
  const double d = p.spec.hidden, f = p.spec.expert_width, k = p.spec.n_chosen;
  run(traffic.backend(), random_embed(p.random, p.spec, p.control));
  expect_floors(traffic, {{"embed", matrix(1, d, 4) + floats(d)}});
  run(traffic.backend(), random_gdn_project(p.random, p.spec, p.control));
  const double gdn = p.spec.conv_dim() + p.spec.value_dim();
  const double heads = p.spec.n_value_heads;
  expect_floors(traffic,
                {{"linear_few_norm_1",
                  matrix(gdn, d, 4) + matrix(2 * heads, d, 4) + floats(2 * d + gdn + 2 * heads)}},
                "delta layer in");
  run(traffic.backend(), random_attention_project(p.random, p.spec, p.control));
  const double qkv = 2 * p.spec.q_dim() + 2 * p.spec.kv_dim();
  expect_floors(traffic, {{"linear_few_norm_1", matrix(qkv, d, 4) + floats(2 * d + qkv)}},
                "attention layer in");
  run(traffic.backend(), random_project_residual(p.random, p.spec, p.control));
  const double mixed = p.spec.value_dim();
  expect_floors(traffic, {{"linear_few_add_1", matrix(d, mixed, 4) + floats(mixed + 2 * d)}},
                "mixer out");
  run(traffic.backend(), random_experts_up(p.random, p.spec, p.control));
  expect_floors(traffic,
                {{"experts_few_up", (k + 1) * (2 * matrix(f, d, 4) + floats(f)) + floats(d + k)}});
  run(traffic.backend(), random_experts_down(p.random, p.spec, p.control));
  expect_floors(traffic, {{"experts_few_down",
                           (k + 1) * (matrix(d, f, 4) + floats(f)) + floats(2 * d + 2 * k)}});
  run(traffic.backend(), random_head(p.random, p.spec, p.control));
  const double v = p.spec.vocab_rows;
  expect_floors(
      traffic,
      {{"linear_few_norm_1", matrix(v, d, 4) + floats(2 * d + v)}, {"head_states", floats(3 * d)}},
      "head, 4,096 entries");
}

TEST(GpuTraffic, Router) {
  Traffic traffic;
  Pass p(1, 0);
  const double d = p.spec.hidden, k = p.spec.n_chosen, e = p.spec.n_experts;
  run(traffic.backend(), random_route(p.random, p.spec, p.control));
  expect_floors(traffic,
                {{"linear_few_norm_1", matrix(e + 1, d, 8) + floats(2 * d + e + 1)},
                 {"route_choose", floats(3 * d + e + 2 * k + 2)}},
                "10 experts");
}

// ---- mixers

TEST(GpuTraffic, DeltaRule) {
  Traffic traffic;
  Pass p(1, 5);
  const double keys = p.spec.key_dim(), values = p.spec.value_dim(), conv = p.spec.conv_dim(),
               heads = p.spec.n_value_heads;
  run(traffic.backend(), random_gdn_prepare(p.random, p.spec, p.control));
  // A window is three rows, in and out.
  expect_floors(traffic, {{"gdn_prepare", floats(conv + 6 * conv + kConvTaps * conv + 4 * heads +
                                                 2 * keys + values + 2 * heads)}});
  run(traffic.backend(), random_gdn_scan(p.random, p.spec, p.control));
  expect_floors(traffic, {{"gdn_scan_few", floats(2 * values * kDeltaDim + 2 * keys + 3 * values +
                                                  2 * heads + kDeltaDim)}});
}

const BufferTraffic& largest_read(const DispatchRecord& record) {
  return *std::max_element(
      record.traffic.begin(), record.traffic.end(),
      [](const auto& a, const auto& b) { return a.unique_read < b.unique_read; });
}
double sectors_over_bytes(const DispatchRecord& record) {
  const BufferTraffic& kv = largest_read(record);
  return 32.0 * static_cast<double>(kv.sectors_read) / static_cast<double>(kv.bytes_read);
}

// A row that prepares itself, in a context of so many positions.
void run_row(Traffic& traffic, int position) {
  Pass p(1, position);
  run_both(traffic.backend(), random_attention_prepare(p.random, p.spec, p.control));
}

void expect_attention(Traffic& traffic, int position, int n_parts, const char* note) {
  run_row(traffic, position);
  const ModelSpec spec = traffic_spec();
  const double q = spec.q_dim(), parts = floats(spec.n_q_heads * n_parts * (kHeadDim + 2.0)),
               small = floats(kHeadDim + kRotaryDims);
  expect_floors(traffic,
                {{"attention_few_4", floats(q) + small + cache(spec, position) + parts},
                 {"attention_merge",
                  parts + floats(3 * q + 2 * spec.kv_dim() + kHeadDim) + small + cache(spec, 1)}},
                note);
}

TEST(GpuTraffic, Attention) {
  Traffic traffic({}, {.block_attention_from = 4096});
  expect_attention(traffic, 2047, 32, "2K positions, general");
  expect_attention(traffic, 6144, 12, "6K positions, blocks");
}

// Lanes that are neighbours read words that are neighbours: the sectors of all instructions hold
// the bytes that were asked for and no others. Scattered, a read of keys touches twice as many,
// half of each for another lane and another time, and one of values four times.
TEST(GpuTraffic, NeighbouringLanesReadNeighbouringBytesOfTheCache) {
  Traffic coalesced, scattered({.coalesced_kv = false}), unpacked({.packed_attention = false});
  std::vector<double> bytes;
  for (Traffic* traffic : {&coalesced, &scattered, &unpacked}) {
    run_row(*traffic, 512);
    const DispatchRecord record = traffic->records().front();
    bytes.push_back(static_cast<double>(largest_read(record).bytes_read));
    if (traffic == &scattered) {
      EXPECT_EQ(sectors_over_bytes(record), 3.0);
    } else {
      EXPECT_EQ(sectors_over_bytes(record), 1.0);
    }
  }
  EXPECT_EQ(bytes[1], bytes[0]);
  EXPECT_EQ(bytes[2], 4 * bytes[0]);  // What packing saves.
}

// ---- choosing

TEST(GpuTraffic, Vocabulary) {
  const double v = kTrafficVocab, chunks = 16.0 * (kTrafficVocab + 1023) / 1024;
  for (const bool kept : {false, true}) {
    Traffic traffic({.fused_head_choose = kept});
    Pass p(1, 0, {0});
    const auto head = random_head(p.random, p.spec, p.control);
    Sampling greedy;
    greedy.generated.assign(kTrafficVocab, 0);
    greedy.in_prompt.assign(kTrafficVocab, 0);
    run_both(traffic.backend(), head, {greedy}, kTrafficVocab);
    const double d = p.spec.hidden;
    const double product = matrix(v, d, 4) + floats(2 * d + v);
    if (kept) {
      // The logits are read by the group that wrote them.
      expect_floors(traffic,
                    {{"head_chunks_1", product + floats(v) + chunks},
                     {"choose_stats", sizeof(SamplingControl)},
                     {"choose_rows", chunks + sizeof(ChosenToken) + sizeof(SamplingControl)}},
                    "kept by the head");
    } else {
      expect_floors(traffic,
                    {{"linear_few_norm_1", product},
                     {"choose_stats", floats(v) + chunks},
                     {"choose_rows", chunks + sizeof(ChosenToken) + sizeof(SamplingControl)}},
                    "4,096 entries");
    }
  }
}

// ---- many rows: 32, all that a tile has

TEST(GpuTraffic, Tiles) {
  Traffic traffic;
  Pass p(32, 480);
  const double d = p.spec.hidden, n = p.n, gdn = p.spec.conv_dim() + p.spec.value_dim(),
               heads = p.spec.n_value_heads, mixed = p.spec.value_dim(), q = p.spec.q_dim();
  run(traffic.backend(), random_gdn_project(p.random, p.spec, p.control));
  expect_floors(traffic,
                {{"linear_tile_norm",
                  matrix(gdn + 2 * heads, d, 4) + floats(d) + n * floats(d + gdn + 2 * heads)}},
                "32 rows");
  run(traffic.backend(), random_project_residual(p.random, p.spec, p.control));
  expect_floors(traffic, {{"linear_tile_add", matrix(d, mixed, 4) + n * floats(mixed + 2 * d)}},
                "32 rows");
  run(traffic.backend(), random_attention(p.random, p.spec, p.control));
  expect_floors(traffic, {{"attention_many", cache(p.spec, 512) + n * floats(3 * q)}}, "32 rows");
  run(traffic.backend(), random_gdn_scan(p.random, p.spec, p.control));
  const double keys = p.spec.key_dim(), states = floats(2 * mixed * kDeltaDim);
  expect_floors(traffic,
                {{"gdn_scan_many", states + n * floats(2 * keys + 2 * mixed + 2 * heads)},
                 {"gdn_norm", n * floats(3 * mixed) + floats(kDeltaDim)}},
                "32 rows");
}

// ---- experts of many rows, and every form of the tiles

struct TileMechanisms {
  Mechanisms mechanisms;
  std::string suffix;  // Of the kernels' names.
  int block_rows;
};
std::vector<TileMechanisms> tile_mechanisms() {
  return {{{}, "", 32},
          {{.large_tiles = true}, "_large", 64},
          {{.matrix_units = false}, "_plain", 32},
          {{.large_tiles = true, .matrix_units = false}, "_large_plain", 64}};
}

// What experts_sort leaves for experts_tile: slots, and three words a block.
double sorted(const Pass& p, int block_rows) {
  const int slots = p.n * p.spec.n_chosen;
  return floats(slots + 3.0 * (slots / block_rows + p.spec.n_experts));
}

void expect_experts(Traffic& traffic, Pass& p, const TileMechanisms& of) {
  const double d = p.spec.hidden, f = p.spec.expert_width, k = p.spec.n_chosen, n = p.n,
               all = p.spec.n_experts + 1, order = sorted(p, of.block_rows);
  const Floor sort{"experts_sort", floats(n * k) + order};
  run(traffic.backend(), random_experts_up(p.random, p.spec, p.control));
  expect_floors(traffic,
                {sort,
                 {"experts_tile_up" + of.suffix,
                  all * 2 * matrix(f, d, 4) + order + n * floats(d + (k + 1) * f)}},
                "32 rows, a quarter as wide");
  run(traffic.backend(), random_experts_down(p.random, p.spec, p.control));
  const double out = n * (k + 1) * 2 * d;  // bf16
  expect_floors(traffic,
                {sort,
                 {"experts_tile_down" + of.suffix,
                  all * matrix(d, f, 4) + order + n * (k + 1) * floats(f) + out},
                 {"experts_combine", out + n * floats(2 * d + k + 1)}},
                "32 rows, a quarter as wide");
}

TEST(GpuTraffic, TileForms) {
  for (const TileMechanisms& of : tile_mechanisms()) {
    Traffic traffic(of.mechanisms, {}, narrow_spec());
    Pass p(32, 480, {}, narrow_spec());
    expect_experts(traffic, p, of);
    if (of.suffix.empty()) continue;  // The others' rows stand above.
    const double d = p.spec.hidden, n = p.n, mixed = p.spec.value_dim(),
                 qkv = 2 * p.spec.q_dim() + 2 * p.spec.kv_dim();
    run(traffic.backend(), random_attention_project(p.random, p.spec, p.control));
    expect_floors(
        traffic,
        {{"linear_tile_norm" + of.suffix, matrix(qkv, d, 4) + floats(d) + n * floats(d + qkv)}},
        "32 rows, a quarter as wide");
    run(traffic.backend(), random_project_residual(p.random, p.spec, p.control));
    expect_floors(
        traffic, {{"linear_tile_add" + of.suffix, matrix(d, mixed, 4) + n * floats(mixed + 2 * d)}},
        "32 rows, a quarter as wide");
  }
}

TEST(GpuTraffic, AttentionOnPlainTiles) {
  Traffic traffic({.matrix_units = false});
  Pass p(32, 480);
  run(traffic.backend(), random_attention(p.random, p.spec, p.control));
  expect_floors(traffic,
                {{"attention_many_plain", cache(p.spec, 512) + p.n * floats(3 * p.spec.q_dim())}},
                "32 rows");
}

// Weights are read as codes, written as bf16 and read as that; the state of each head goes through
// memory once in 32 rows.
TEST(GpuTraffic, Unpacked) {
  Traffic traffic({.dequantise_in_tile = false, .register_state = false});
  Pass p(32, 480);
  const double d = p.spec.hidden, n = p.n, mixed = p.spec.value_dim(), heads = p.spec.n_value_heads;
  run(traffic.backend(), random_project_residual(p.random, p.spec, p.control));
  expect_floors(traffic,
                {{"dequantise", matrix(d, mixed, 4) + 2 * d * mixed},
                 {"linear_tile_add", 2 * d * mixed + n * floats(mixed + 2 * d)}},
                "32 rows, weights of 16 bits");
  run(traffic.backend(), random_gdn_scan(p.random, p.spec, p.control));
  expect_floors(traffic,
                {{"gdn_scan_blocks", floats(2 * mixed * kDeltaDim) +
                                         n * floats(2 * p.spec.key_dim() + 2 * mixed + 2 * heads)},
                 {"gdn_norm", n * floats(3 * mixed) + floats(kDeltaDim)}},
                "32 rows");
}

// ---- two, four and eight rows at a time, and a query head by itself

TEST(GpuTraffic, FewRows) {
  for (const int n : {2, 4, 8}) {
    Traffic traffic({}, {}, narrow_spec());
    Pass p(n, 100, {}, narrow_spec());
    const std::string rows = std::to_string(n), note = rows + " rows, a quarter as wide";
    const double d = p.spec.hidden, mixed = p.spec.value_dim(),
                 qkv = 2 * p.spec.q_dim() + 2 * p.spec.kv_dim();
    run(traffic.backend(), random_attention_project(p.random, p.spec, p.control));
    expect_floors(
        traffic, {{"linear_few_norm_" + rows, matrix(qkv, d, 4) + floats(d) + n * floats(d + qkv)}},
        note.c_str());
    run(traffic.backend(), random_project_residual(p.random, p.spec, p.control));
    expect_floors(traffic,
                  {{"linear_few_add_" + rows, matrix(d, mixed, 4) + n * floats(mixed + 2 * d)}},
                  note.c_str());
  }
}

TEST(GpuTraffic, HeadOfFourRows) {
  Traffic traffic({.fused_head_choose = true});
  Pass p(4, 0, {0, 1, 2, 3});
  Sampling greedy;
  greedy.generated.assign(kTrafficVocab, 0);
  greedy.in_prompt.assign(kTrafficVocab, 0);
  run_both(traffic.backend(), random_head(p.random, p.spec, p.control),
           {greedy, greedy, greedy, greedy}, kTrafficVocab);
  const double d = p.spec.hidden, v = kTrafficVocab, chunks = 4 * 16.0 * (kTrafficVocab + 1023) / 1024;
  expect_floors(traffic,
                {{"head_chunks_4", matrix(v, d, 4) + floats(d) + 4 * floats(d + 2 * v) + chunks},
                 {"choose_stats", 4.0 * sizeof(SamplingControl)},
                 {"choose_rows", chunks + 4.0 * (sizeof(ChosenToken) + sizeof(SamplingControl))}},
                "kept by the head, 4 rows");
}

TEST(GpuTraffic, UnpackedAttention) {
  Traffic traffic({.packed_attention = false});
  run_row(traffic, 2047);
  const ModelSpec spec = traffic_spec();
  const double q = spec.q_dim(), parts = floats(spec.n_q_heads * 32 * (kHeadDim + 2.0)),
               small = floats(kHeadDim + kRotaryDims);
  expect_floors(traffic,
                {{"attention_few_1", floats(q) + small + cache(spec, 2047) + parts},
                 {"attention_merge",
                  parts + floats(3 * q + 2 * spec.kv_dim() + kHeadDim) + small + cache(spec, 1)}},
                "2K positions, unpacked");
}

TEST(GpuTraffic, Copies) {
  Traffic traffic;
  Backend& backend = traffic.backend();
  for (const auto& [kernel, n] : std::vector<std::pair<std::string, std::int64_t>>{
           {"copy_words", 65536}, {"copy_bytes", 65533}}) {
    const auto from = backend.allocate(65536, "copied from");
    const auto to = backend.allocate(65536, "copied to");
    ASSERT_TRUE(from.has_value() && to.has_value());
    ASSERT_TRUE(backend.begin({.rows_bound = 1}));
    backend.copy({from->as<std::byte>(), to->as<std::byte>(), n});
    ASSERT_TRUE(backend.wait(backend.submit()).has_value());
    expect_floors(traffic, {{kernel, 2.0 * static_cast<double>(n)}});
  }
}

// Nothing is computed of what is read.
TEST(GpuTraffic, Folds) {
  Traffic traffic;
  Backend& backend = traffic.backend();
  const auto memory = backend.allocate(131072, "folded"),
             sink = backend.allocate(4 * kFoldWords, "sink");
  ASSERT_TRUE(memory.has_value() && sink.has_value());
  const QuantMatrix weights{memory->address(),
                           memory->as<std::uint16_t>(65536),
                           memory->as<std::uint16_t>(98304),
                           128,
                           1024,
                           4,
                           static_cast<std::uint32_t>(WeightLayout::kRowMajor)};
  const auto fold = [&](const FoldArgs& args) {
    ASSERT_TRUE(backend.begin({.rows_bound = 1, .n_top = args.matrix.rows}));
    backend.fold(args);
    ASSERT_TRUE(backend.wait(backend.submit()).has_value());
  };
  fold({{}, memory->address(), 131072, sink->as<std::uint32_t>()});
  expect_floors(traffic, {{"fold_words", 131072 + floats(2)}});
  fold({weights, nullptr, 0, sink->as<std::uint32_t>()});
  expect_floors(traffic, {{"fold_rows", matrix(128, 1024, 4) + floats(16)}});
}

// ---- what is apart where a mechanism is off

TEST(GpuTraffic, Apart) {
  Traffic traffic(
      {.fused_experts_up = false, .fused_experts_down = false, .fused_query_key = false});
  Pass p(1, 100);
  const double d = p.spec.hidden, f = p.spec.expert_width, k = p.spec.n_chosen, q = p.spec.q_dim(),
               kv = p.spec.kv_dim();
  run(traffic.backend(), random_experts_up(p.random, p.spec, p.control));
  const double product = (k + 1) * (matrix(f, d, 4) + floats(f)) + floats(d + k);
  expect_floors(traffic, {{"experts_product_32", product},
                          {"experts_product_32", product},
                          {"experts_activate", (k + 1) * floats(3 * f)}});
  run(traffic.backend(), random_experts_down(p.random, p.spec, p.control));
  const double down = matrix(d, f, 4) + floats(f + d);
  expect_floors(traffic, {{"experts_product_16", k * down + floats(k)},
                          {"experts_product_16", down},
                          {"experts_sum", (k + 1) * floats(d + 1) + floats(2 * d)}});
  run(traffic.backend(), random_attention_prepare(p.random, p.spec, p.control));
  expect_floors(traffic, {{"query_key_norm", floats(2 * q + 2 * kv + 2 * kHeadDim)},
                          {"query_key_rope", floats(2 * q + 2 * kv + kRotaryDims)},
                          {"kv_append", floats(2 * kv) + cache(p.spec, 1)}});
}

TEST(GpuTraffic, Rest) {
  Traffic traffic;
  Pass p(2, 100);
  const double q = p.spec.q_dim(), kv = p.spec.kv_dim();
  run(traffic.backend(), random_attention_prepare(p.random, p.spec, p.control));
  expect_floors(traffic,
                {{"attention_prepare", 2 * (floats(2 * q + 2 * kv) + cache(p.spec, 1)) +
                                           floats(2 * kHeadDim + kRotaryDims)}},
                "2 rows");
  auto score = random_score(p.random, 1, kTrafficVocab, kTrafficVocab);
  score.n_top = 0;
  score.reference_log_probs.assign(kTrafficVocab, -8.0f);
  run(traffic.backend(), score);
  const double chunks = 16.0 * kTrafficVocab / 1024;
  expect_floors(traffic,
                {{"vocabulary_stats", floats(kTrafficVocab) + chunks},
                 {"score_rows", floats(2 * kTrafficVocab) + chunks + floats(4)}},
                "4,096 entries");
}

}  // namespace
}  // namespace lily::cases

#endif
