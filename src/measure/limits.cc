// Measuring the read rate and the integer rate.
#include "measure/limits.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "base/arm_features.h"
#include "base/cores.h"
#include "measure/limits_neon.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lily {
namespace {

using Clock = std::chrono::steady_clock;
using Words = std::span<const std::uint64_t>;

constexpr int kRuns = 6;
constexpr std::int64_t kIntegerSteps = 32'000'000;

// The sum of all words: keeps the loads from being optimised away.
using ReadKernel = std::uint64_t (*)(Words);
std::uint64_t read_portable(Words words) {
  std::uint64_t sums[4] = {};
  for (std::size_t i = 0; i + 4 <= words.size(); i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += words[i + lane];
  }
  return sums[0] + sums[1] + sums[2] + sums[3];
}

std::int64_t integer_portable(std::int64_t steps, std::uint64_t& sink) {
  constexpr std::int64_t kLanes = 64;
  std::int16_t a[kLanes], b[kLanes];
  std::int32_t sums[kLanes] = {};
  for (std::int64_t i = 0; i < kLanes; ++i) {
    a[i] = static_cast<std::int16_t>(i & 15);
    b[i] = static_cast<std::int16_t>(i - 32);
  }
  for (std::int64_t step = 0; step < steps / 8; ++step) {
    a[step & (kLanes - 1)] ^= 1;
    for (std::int64_t i = 0; i < kLanes; ++i) sums[i] += a[i] * b[i];
  }
  for (const auto sum : sums) sink += static_cast<std::uint64_t>(sum);
  return steps / 8 * kLanes;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) std::uint64_t read_avx2(Words words) {
  const auto* from = reinterpret_cast<const __m256i*>(words.data());
  __m256i sums[4] = {};
  for (std::size_t i = 0; i + 4 <= words.size() / 4; i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) {
      sums[lane] = _mm256_add_epi64(sums[lane], _mm256_loadu_si256(from + i + lane));
    }
  }
  const auto all =
      _mm256_add_epi64(_mm256_add_epi64(sums[0], sums[1]), _mm256_add_epi64(sums[2], sums[3]));
  std::uint64_t lanes[4];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), all);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

// Four chains of what a 4-bit matrix costs at best: two 8-bit products (maddubs), their sum widened
// once (madd).
__attribute__((target("avx2"))) std::int64_t integer_avx2(std::int64_t steps, std::uint64_t& sink) {
  const __m256i ones = _mm256_set1_epi16(1);
  const __m256i low = _mm256_set1_epi8(3), high = _mm256_set1_epi8(-2);
  __m256i codes[4], sums[4];
  for (int i = 0; i < 4; ++i) {
    codes[i] = _mm256_set1_epi8(static_cast<char>(5 + i));
    sums[i] = _mm256_setzero_si256();
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    for (int i = 0; i < 4; ++i) {
      asm volatile("" : "+x"(codes[i]));  // The compiler may not know that the products repeat.
      const __m256i pair = _mm256_add_epi16(_mm256_maddubs_epi16(codes[i], low),
                                            _mm256_maddubs_epi16(codes[i], high));
      sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(pair, ones));
    }
  }
  std::uint64_t lanes[4];
  for (const auto& sum : sums) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), sum);
    sink += lanes[0] + lanes[1] + lanes[2] + lanes[3];
  }
  return steps * 4 * 64;
}

// Chains of what a 4-bit matrix costs at best there: one dpbusd for 64 products. As many chains as
// hide its latency on two ports.
__attribute__((target("avx512f,avx512vnni"))) std::int64_t integer_avx512(std::int64_t steps,
                                                                          std::uint64_t& sink) {
  constexpr int kChains = 12;
  __m512i codes = _mm512_set1_epi8(5), sums[kChains];
  const __m512i x = _mm512_set1_epi8(-2);
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_epi32(i);
  for (std::int64_t step = 0; step < steps; ++step) {
    asm volatile("" : "+v"(codes));  // The compiler may not know that the products repeat.
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbusd_epi32(sums[i], codes, x);
  }
  __m512i all = sums[0];
#pragma GCC unroll 12
  for (int i = 1; i < kChains; ++i) all = _mm512_add_epi32(all, sums[i]);
  std::uint64_t lanes[8];
  _mm512_storeu_si512(lanes, all);
  for (const auto lane : lanes) sink += lane;
  return steps * kChains * 64;
}
#endif

// By the names of the backend's instruction sets.
struct KernelSet {
  std::string_view name;
  bool (*supported)();
  ReadKernel read;
  IntegerKernel integer;
};

// Best first.
constexpr std::array kKernelSets = {
#if defined(__x86_64__)
    KernelSet{"avx512",
              [] {
                return __builtin_cpu_supports("avx512f") != 0 &&
                       __builtin_cpu_supports("avx512vnni") != 0;
              },
              read_avx2, integer_avx512},
    KernelSet{"avx2", [] { return __builtin_cpu_supports("avx2") != 0; }, read_avx2, integer_avx2},
#elif defined(__aarch64__)
    KernelSet{"neon-i8mm", [] { return arm_has_dotprod() && arm_has_i8mm(); }, read_portable,
              integer_neon_i8mm},
    KernelSet{"neon", arm_has_dotprod, read_portable, integer_neon},
#endif
    KernelSet{"portable", [] { return true; }, read_portable, integer_portable},
};

Result<KernelSet> choose_kernels(const std::string& name) {
  for (const auto& set : kKernelSets) {
    if ((name.empty() || set.name == name) && set.supported()) return set;
  }
  return Error{ErrorCode::kUnsupported,
               "measuring the integer rate: instruction set '" + name + "' is not to be had"};
}

// Runs task(0) .. task(n - 1) on a thread each, let go together. Seconds until the last is done.
// Where the system refuses a thread, this one does the rest.
double timed(int n, const std::function<void(int)>& task) {
  std::atomic<bool> go{false};
  std::vector<std::thread> threads;
  const auto start_one = [&](int i) {
    try {
      threads.emplace_back([&, i] {
        go.wait(false);
        task(i);
      });
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  };
  int started = 0;
  while (started < n && start_one(started)) ++started;
  const auto start = Clock::now();
  go = true;
  go.notify_all();
  for (int i = started; i < n; ++i) task(i);
  for (auto& thread : threads) thread.join();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Words share_of(Words words, int index, int n) {
  const auto part = words.size() / static_cast<std::size_t>(n);
  return words.subspan(part * static_cast<std::size_t>(index), part);
}

double read_rate(const KernelSet& kernels, Words words, int n, std::atomic<std::uint64_t>& sink) {
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    const double seconds = timed(n, [&](int i) { sink += kernels.read(share_of(words, i, n)); });
    best = std::max(best, static_cast<double>(words.size_bytes()) / seconds);
  }
  return best;
}

double integer_rate(const KernelSet& kernels, int n, std::atomic<std::uint64_t>& sink) {
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::atomic<std::int64_t> done{0};
    const double seconds = timed(n, [&](int) {
      std::uint64_t mine = 0;
      done += kernels.integer(kIntegerSteps, mine);
      sink += mine;
    });
    best = std::max(best, static_cast<double>(done.load()) / seconds);
  }
  return best;
}

}  // namespace

Result<IntegerKernel> integer_kernel(const std::string& isa) {
  LILY_TRY(const KernelSet kernels, choose_kernels(isa));
  return kernels.integer;
}

Result<MachineLimits> measure_limits(const LimitsRequest& request) {
  LILY_TRY(const KernelSet kernels, choose_kernels(request.isa));
  const auto n_words = request.bytes / sizeof(std::uint64_t);
  const std::unique_ptr<std::uint64_t[]> memory(new (std::nothrow) std::uint64_t[n_words]);
  if (!memory) {
    return Error{ErrorCode::kNoMemory,
                 "measuring the read rate: " + std::to_string(request.bytes >> 20) +
                     " MiB are not to be had"};
  }
  const int threads = request.threads > 0 ? request.threads : usable_cores();
  const Words words(memory.get(), n_words);
  const auto start_of = [&](int i) {
    return memory.get() + (share_of(words, i, threads).data() - words.data());
  };
  // Pages that were never written are all the same page.
  timed(threads, [&](int i) {
    std::fill_n(start_of(i), share_of(words, i, threads).size(), static_cast<std::uint64_t>(i + 1));
  });
  std::atomic<std::uint64_t> sink{0};
  return MachineLimits{.threads = threads,
                       .bytes = request.bytes,
                       .kernel = std::string(kernels.name),
                       .read_one = read_rate(kernels, words, 1, sink),
                       .read_all = read_rate(kernels, words, threads, sink),
                       .integer_one = integer_rate(kernels, 1, sink),
                       .integer_all = integer_rate(kernels, threads, sink)};
}

}  // namespace lily
