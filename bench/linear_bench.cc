// Products with quantised matrices at the shapes of the 35B, as shares of what the machine can do.
//   linear_bench [--isa NAME] [--threads N] [--rounds N] [--exact] [--processor-time] [NAME...]
// A case runs if its name contains a NAME. --processor-time counts what the threads used instead of
// what the clock shows: for a machine that others use as well.
//
// Peaks are measured in the same rounds as the cases, because the rates of a shared machine move:
// "int8" is measure/limits.h's integer rate, an operation being half a multiply-add; "read" sums a
// stretch of memory without software prefetch, so that a product may pass it. Weights come from 2
// GB in rotation: no cache helps. A line: name, median and least ms, GOP/s and GB/s at the least,
// median over the rounds of the share of that round's peak.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "backend/cpu/linear.h"
#include "base/random.h"
#include "measure/limits.h"

namespace lily::cpu {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{2200} << 20;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

Result<Buffer> allocate(std::size_t bytes, std::string_view what) {
  const std::size_t padded = round_up(bytes, kHugePage);
  void* p = std::aligned_alloc(kHugePage, padded);
  if (p == nullptr) return Error{ErrorCode::kNoMemory, std::string(what)};
#if defined(__linux__)
  madvise(p, padded, MADV_HUGEPAGE);
#endif
  std::memset(p, 0, padded);
  return Buffer(p, bytes, std::shared_ptr<void>(p, std::free));
}

constexpr std::int64_t kPeakSteps = 1'000'000;

struct Options {
  std::string isa;  // Empty: the best there is
  int threads = 0, rounds = 15;
  bool exact = false, processor_time = false;
  std::vector<std::string> names;
};

struct Case {
  std::string name;
  double bytes, operations;
  std::function<void()> run;
  bool by_memory;  // Which peak it is a share of
  std::vector<double> ms = {}, shares = {};
};

class Bench {
 public:
  Bench(const Options& options, const Kernels& kernels, IntegerKernel integer)
      : options_(options),
        integer_(integer),
        pool_(options.threads),
        linear_(kernels, pool_, options.exact ? Activations::kF32 : Activations::kInt8) {}
  Result<void> run();

 private:
  static constexpr int kRows = 512, kHidden = 2048, kExperts = 256, kChosen = 8, kWidth = 512;

  QuantMatrix take(int rows, int cols, int bits = 4);
  void set_rows(int n);
  void add(const std::string& name, int n, double weight_bytes, double operations,
           std::function<void()> run);
  void add_cases(int n);
  void add_experts(int n);
  double now() const;
  double int8_peak();
  double read_peak();
  void round();
  void print();

  Options options_;
  IntegerKernel integer_;
  ThreadPool pool_;
  Linear linear_;
  Buffer arena_, input_, output_, expert_ids_, weights_;
  PassControl control_{};
  std::size_t next_ = 0;
  std::uint64_t draws_ = 0;
  std::vector<Case> cases_;
  std::vector<double> int8_, read_;
};

// The next stretch of the arena as a matrix.
QuantMatrix Bench::take(int rows, int cols, int bits) {
  const std::size_t bytes = quant_extent(WeightLayout::kInterleaved16, {rows, cols, bits}).bytes;
  if (next_ + bytes > arena_.bytes()) next_ = 0;
  const void* codes = arena_.as<std::byte>(next_);
  next_ = round_up(next_ + bytes, kSectionAlign);
  return {codes,
          nullptr,
          nullptr,
          rows,
          cols,
          bits,
          static_cast<std::uint32_t>(WeightLayout::kInterleaved16)};
}

// n rows, each with kChosen different experts in ascending order.
void Bench::set_rows(int n) {
  control_.n_rows = n;
  for (int t = 0; t < n; ++t) {
    auto* ids = expert_ids_.as<std::int32_t>() + t * kChosen;
    for (int k = 0; k < kChosen;) {
      ids[k] = static_cast<std::int32_t>(uniform_draw(7, draws_++) * kExperts);
      if (std::find(ids, ids + k, ids[k]) == ids + k) ++k;
    }
    std::sort(ids, ids + kChosen);
  }
}

void Bench::add(const std::string& name, int n, double weight_bytes, double operations,
                std::function<void()> run) {
  const std::string full = name + " T=" + std::to_string(n);
  const auto wanted = [&](const std::string& part) { return full.find(part) != std::string::npos; };
  if (!options_.names.empty() && std::none_of(options_.names.begin(), options_.names.end(), wanted))
    return;
  cases_.push_back({full, weight_bytes, operations,
                    [this, n, run] {
                      set_rows(n);
                      run();
                    },
                    n < 8});
}

double matrix_bytes(double rows, double cols, int bits = 4) {
  return rows * cols / kQuantGroup * static_cast<double>(record_bytes(bits)) / kBlockRows;
}

void Bench::add_cases(int n) {
  const Linear::Rows hidden{input_.as<float>(), n, kHidden};
  const auto products = [=, this](std::vector<int> rows, int cols) {
    std::vector<Linear::Product> list;
    for (const int r : rows) list.push_back({take(r, cols), output_.as<float>()});
    const Linear::Norm norm{.weight = weights_.as<float>(), .eps = 1e-6f};
    linear_.multiply({input_.as<float>(), n, cols}, cols == kHidden ? &norm : nullptr, list);
  };
  const double per = 2.0 * n;
  add("gdn_project", n, matrix_bytes(12352, 2048), per * 12352 * 2048, [=] {
    products({8192, 4096, 32, 32}, 2048);
  });
  add("attention_project", n, matrix_bytes(9216, 2048), per * 9216 * 2048, [=] {
    products({8192, 512, 512}, 2048);
  });
  add("project_residual", n, matrix_bytes(2048, 4096), per * 2048 * 4096, [=, this] {
    linear_.multiply_add({input_.as<float>(), n, 4096}, {take(2048, 4096), output_.as<float>()});
  });
  add("route", n, matrix_bytes(257, 2048, 8), per * 257 * 2048, [=, this] {
    auto* out = output_.as<float>();
    linear_.route({&control_, hidden.x, weights_.as<float>(), take(kExperts, kHidden, 8),
                   take(1, kHidden, 8), out, nullptr, nullptr, out + n * kHidden, kChosen, 1e-6f});
  });
  add_experts(n);
  if (n <= kHeadBlockRows) {
    add("head", n, matrix_bytes(248320, 2048), per * 248320 * 2048,
        [=] { products({248320}, 2048); });
  }
}

void Bench::add_experts(int n) {
  const double pairs = n * kChosen;
  const double touched =
      kExperts * (1.0 - std::pow(1.0 - kChosen / static_cast<double>(kExperts), n)) + 1;
  const double bytes = touched * matrix_bytes(kWidth, kHidden),
               operations = 2.0 * (pairs + n) * kWidth * kHidden;
  auto* in = input_.as<float>();
  auto* out = output_.as<float>();
  const auto* ids = expert_ids_.as<std::int32_t>();
  const auto* ones = weights_.as<float>();
  constexpr int kAll = kExperts * kWidth;
  add("experts_up", n, 2 * bytes, 2 * operations, [=, this] {
    linear_.experts_up({&control_, in, ids, take(kAll, kHidden), take(kAll, kHidden),
                        take(kWidth, kHidden), take(kWidth, kHidden), out,
                        out + n * kChosen * kWidth, kExperts, kChosen});
  });
  add("experts_down", n, bytes, operations, [=, this] {
    linear_.experts_down({&control_, in, in, ids, ones, ones, take(kExperts * kHidden, kWidth),
                          take(kHidden, kWidth), out, kExperts, kChosen});
  });
}

// Seconds, of a thread.
double Bench::now() const {
  if (options_.processor_time)
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC / pool_.size();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Bench::int8_peak() {
  std::atomic<std::int64_t> done{0};
  std::atomic<std::uint64_t> sink{0};
  const double start = now();
  pool_.run([&](int, int) {
    std::uint64_t mine = 0;
    done += integer_(kPeakSteps, mine);
    sink += mine;
  });
  return 2.0 * static_cast<double>(done.load()) / (now() - start) / 1e9;
}

// GB/s over the next 256 MB of the arena.
double Bench::read_peak() {
  constexpr std::size_t kBytes = std::size_t{256} << 20, kPart = std::size_t{256} << 10;
  if (next_ + kBytes > arena_.bytes()) next_ = 0;
  const auto* words = arena_.as<std::uint64_t>(next_);
  next_ += kBytes;
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(pool_.size()) * 8);
  const double start = now();
  pool_.parallel_for(kBytes / kPart, [&](std::int64_t task, int thread) {
    std::uint64_t sum = 0;
    const auto* part = words + static_cast<std::size_t>(task) * (kPart / 8);
    for (std::size_t i = 0; i < kPart / 8; ++i) sum += part[i];
    sums[static_cast<std::size_t>(thread) * 8] += sum;
  });
  const double seconds = now() - start;
  std::uint64_t all = 0;
  for (const auto sum : sums) all += sum;
  asm volatile("" : : "r"(all));
  return kBytes / seconds / 1e9;
}

void Bench::round() {
  for (auto& c : cases_) {
    const double peak = c.by_memory ? read_peak() : int8_peak();
    (c.by_memory ? read_ : int8_).push_back(peak);
    const int repeats =
        std::clamp(static_cast<int>((c.by_memory ? 2e8 / c.bytes : 2e10 / c.operations)), 1, 50);
    const double start = now();
    for (int i = 0; i < repeats; ++i) c.run();
    const double seconds = (now() - start) / repeats;
    c.ms.push_back(seconds * 1e3);
    c.shares.push_back((c.by_memory ? c.bytes : c.operations) / seconds / 1e9 / peak);
  }
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0.0 : v[v.size() / 2];
}
double most(const std::vector<double>& v) {
  return v.empty() ? 0.0 : *std::max_element(v.begin(), v.end());
}

void Bench::print() {
  std::printf(
      "%d threads; int8 peak GOP/s median %.0f most %.0f; read GB/s median %.1f most %.1f\n",
      pool_.size(), median(int8_), most(int8_), median(read_), most(read_));
  for (const auto& c : cases_) {
    const double least = *std::min_element(c.ms.begin(), c.ms.end());
    std::printf("%-24s %9.3f ms %9.3f ms %7.1f GOP/s %6.1f GB/s  %5.1f %% of %s\n", c.name.c_str(),
                median(c.ms), least, c.operations / least / 1e6, c.bytes / least / 1e6,
                100 * median(c.shares), c.by_memory ? "read" : "int8");
  }
}

Result<void> Bench::run() {
  ModelSpec spec;
  spec.hidden = kHidden;
  spec.n_q_heads = 16;
  spec.n_key_heads = 16;
  spec.n_value_heads = 32;
  spec.n_experts = kExperts;
  spec.n_chosen = kChosen;
  spec.expert_width = spec.shared_width = kWidth;
  LILY_RETURN_IF_ERROR(linear_.prepare(spec, kRows, allocate));
  LILY_TRY(arena_, allocate(kArenaBytes, "weights"));
  LILY_TRY(input_, allocate(std::size_t{kRows} * 4096 * 4, "input"));
  LILY_TRY(output_, allocate(std::size_t{kHeadBlockRows} * 248320 * 4, "output"));
  LILY_TRY(expert_ids_, allocate(std::size_t{kRows} * kChosen * 4, "experts"));
  LILY_TRY(weights_, allocate(std::size_t{kRows} * kHidden * 4, "ones"));
  std::memset(arena_.address(), 0x3c,
              arena_.bytes());  // Scales and biases of 0.0115, codes 3 and 12.
  for (std::size_t i = 0; i < input_.bytes() / 4; ++i)
    input_.as<float>()[i] = 2 * uniform_draw(3, i) - 1;
  std::fill_n(weights_.as<float>(), weights_.bytes() / 4, 1.0f);
  for (const int n : {1, 2, 4, 32, kRows}) add_cases(n);
  for (int r = 0; r < options_.rounds; ++r) round();
  print();
  return {};
}

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--isa" && i + 1 < argc)
      options.isa = argv[++i];
    else if (word == "--threads" && i + 1 < argc)
      options.threads = static_cast<int>(std::strtol(argv[++i], nullptr, 10));
    else if (word == "--rounds" && i + 1 < argc)
      options.rounds = static_cast<int>(std::strtol(argv[++i], nullptr, 10));
    else if (word == "--exact")
      options.exact = true;
    else if (word == "--processor-time")
      options.processor_time = true;
    else
      options.names.push_back(word);
  }
  return options;
}

Result<void> run(const Options& options) {
  LILY_TRY(const Kernels* const kernels, choose_kernels(options.isa));
  LILY_TRY(const IntegerKernel integer, integer_kernel(options.isa));
  return Bench(options, *kernels, integer).run();
}

}  // namespace
}  // namespace lily::cpu

int main(int argc, char** argv) {
  const auto done = lily::cpu::run(lily::cpu::read_options(argc, argv));
  if (!done.has_value()) std::fprintf(stderr, "%s\n", done.error().message.c_str());
  return done.has_value() ? 0 : 1;
}
